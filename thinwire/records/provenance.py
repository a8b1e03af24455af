"""The provenance of a result: code, packages, hardware."""

import hashlib
import os
import platform
import subprocess
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.metadata import distributions
from pathlib import Path
from typing import TYPE_CHECKING

from thinwire import RULES_VERSION, __version__
from thinwire.base import folders
from thinwire.base.placement import on_gpu
from thinwire.plugins import ROOT

if TYPE_CHECKING:
    import torch

# Only these environment variables are recorded, and all settings of NCCL. They may change a result, and they
# contain no secrets.
_VARIABLES = (
    "CUBLAS_WORKSPACE_CONFIG",
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "CUDA_VISIBLE_DEVICES",
    "GLOO_SOCKET_IFNAME",
    "SLURM_JOB_ID",
    "SLURM_JOB_NODELIST",
    "SLURM_JOB_PARTITION",
    "SLURM_RESTART_COUNT",
)


def provenance(device: "torch.device", of_passes: Mapping[str, object]) -> dict[str, object]:
    """Return everything about the code and the machine on which a result may depend.

    Args:
        device: of the workers.
        of_passes: torch's settings in the passes of the model.
    """
    import torch

    gpu = on_gpu(device)
    return {
        "thinwire": __version__,
        "rules": RULES_VERSION,
        "git": git_state(),
        "python": platform.python_version(),
        "torch_build": torch.__version__,
        "packages": packages(),
        "hardware": {
            "machine": platform.machine(),
            "system": f"{platform.system()} {platform.release()}",
            "processor": processor(),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "device": torch.cuda.get_device_name(device) if gpu else "cpu",
            "nccl": list(torch.cuda.nccl.version()) if gpu else None,
            "tf32_in_convolutions": torch.backends.cudnn.allow_tf32 if gpu else None,
            "tf32_in_matrix_products": torch.backends.cuda.matmul.allow_tf32 if gpu else None,
            **of_passes,
        },
        "environment": {
            name: value
            for name, value in sorted(os.environ.items())
            if name in _VARIABLES or name.startswith(("NCCL_", "TORCH_NCCL_"))
        },
    }


def now() -> str:
    """Return the time, as ISO 8601 in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class Span:
    """The time from its creation to now. Its length is right even if the system's clock is set meanwhile."""

    def __init__(self) -> None:
        self.started = now()
        self._since = time.monotonic()

    def ended(self) -> str:
        """Return `started` and the seconds that have passed since, as ISO 8601 in UTC."""
        passed = timedelta(seconds=time.monotonic() - self._since)
        return (datetime.fromisoformat(self.started) + passed).isoformat(timespec="seconds")


def git_state() -> dict[str, str | None]:
    """Return the revision of the checkout and a digest of uncommitted changes; None without git.

    Of an installed package it is the checkout of one's own plug-ins, if they are in one.
    """
    revision = _git("rev-parse", "HEAD")
    # Bytes, because a changed file may have any encoding.
    changes = _git("diff", "HEAD", "--", ".")
    return {
        "revision": None if revision is None else revision.decode(),
        "changes_sha256": hashlib.sha256(changes).hexdigest() if changes else None,
    }


@cache
def packages() -> dict[str, str]:
    """Return the versions of all installed packages."""
    return dict(sorted((d.metadata["Name"], d.version) for d in distributions()))


def processor() -> str:
    """Return the name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def _git(*arguments: str) -> bytes | None:
    folder = folders.own() if ROOT.is_relative_to(folders.PACKAGE) else ROOT
    if folder is None:
        return None
    try:
        answer = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return answer.stdout.strip()
