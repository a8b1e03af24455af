"""The provenance of a result: code, packages and hardware; and whether its times count on these machines."""

import hashlib
import os
import platform
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.metadata import distributions
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thinwire import RULES_VERSION, __version__
from thinwire.base import folders
from thinwire.base.nvidia_smi import cores_near, driver, processes_on
from thinwire.base.placement import Cluster, on_gpu
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
_NETWORKS = Path("/sys/class/net")
_INFINIBAND = Path("/sys/class/infiniband")


def provenance(device: "torch.device", of_passes: Mapping[str, object]) -> dict[str, object]:
    """All of code and machine on which a result may depend; `of_passes` are torch's settings in passes."""
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
            "cudnn": torch.backends.cudnn.version() if gpu else None,
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
    """The time, as ISO 8601 in UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


class Span:
    """The time from its creation to now. Its length is right even if the system's clock is set meanwhile."""

    def __init__(self) -> None:
        self.started = now()
        self._since = time.monotonic()

    def ended(self) -> str:
        """`started` and the seconds that have passed since, as ISO 8601 in UTC."""
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
    # What an interrupted uninstall has left has no name.
    named = [(d.metadata["Name"], d.version) for d in distributions() if d.metadata["Name"]]
    return dict(sorted(named))


def processor() -> str:
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


def links() -> dict[str, str]:
    """The rates of this machine's links as Linux knows them, such as `{"eth0": "25000 Mbit/s"}`.

    Ports of InfiniBand have names such as `mlx5_0/1`. Links that are down or virtual have no rate.
    """
    found = {}
    for path in sorted(_NETWORKS.glob("*/speed")):
        with suppress(OSError):
            if (speed := int(path.read_text())) > 0:
                found[path.parent.name] = f"{speed} Mbit/s"
    for path in sorted(_INFINIBAND.glob("*/ports/*")):
        if "ACTIVE" in (path / "state").read_text():
            found[f"{path.parts[-3]}/{path.name}"] = (path / "rate").read_text().strip()
    return found


def about_this_process(device: "torch.device") -> dict[str, object]:
    """Where this rank runs: its host and its links, its Slurm node, the cores it may use, and its device.

    On a GPU, also its name and driver, the cores near it, and the number of other processes that use it.
    """
    about: dict[str, object] = {
        "host": socket.gethostname(),
        "node": os.environ.get("SLURMD_NODENAME", socket.gethostname()),
        "links": links(),
        "cores": sorted(os.sched_getaffinity(0)),
        "device": "cpu",
    }
    if on_gpu(device):
        import torch

        properties = torch.cuda.get_device_properties(device)
        uuid = str(properties.uuid).removeprefix("GPU-")
        # One of the processes is this one. Its own id does not tell which: containers have other ids.
        others = max(0, processes_on(f"GPU-{uuid}") - 1)
        near = cores_near(f"GPU-{uuid}")
        about |= {"device": uuid, "gpu": properties.name, "driver": driver()}
        about |= {"cores_near_gpu": near, "other_processes": others}
    return about


RESUMED = "it was interrupted, and its clocks add the seconds of several attempts"


def no_time_because(ranks: Sequence[dict[str, Any]], cluster: Cluster, interruptions: int = 0) -> str | None:
    """Why the times of a run with a process for each worker say nothing about its method; None if they count.

    Args:
        ranks: what `about_this_process` gave on each rank. With NCCL, also whether it has sent messages,
            which go through the memory of the host.
        cluster: that the cell describes.
        interruptions: how often the run has resumed from a checkpoint. Only the last attempt's ranks are
            known, and each attempt has loaded its kernels anew.
    """
    if interruptions:
        return RESUMED
    names = sorted({rank["gpu"] for rank in ranks if "gpu" in rank})  # earlier records have none
    if len(names) > 1:
        return f"its GPUs were of {len(names)} kinds: {', '.join(names)}"
    hosts = list(dict.fromkeys(rank["host"] for rank in ranks))
    if len(hosts) < cluster.nodes:
        return f"its {cluster.nodes} nodes were {len(hosts)} machine{'' if len(hosts) == 1 else 's'}"
    for host in hosts:
        here = [rank for rank in ranks if rank["host"] == host]
        gpus = {rank["device"] for rank in here} - {"cpu"}
        cores = {core for rank in here for core in rank["cores"]}
        if gpus and len(gpus) < len(here):
            return f"{len(here)} workers shared {len(gpus)} GPU of {host}"
        if not gpus and len(cores) < len(here):
            return f"{len(here)} workers shared {len(cores)} cores of {host}"
        if others := max(rank.get("other_processes", 0) for rank in here):
            return f"{others} other {'process' if others == 1 else 'processes'} used a GPU of {host}"
    if any(rank.get("messages_through_host") for rank in ranks):
        return "its messages went through the memory of the hosts, and its other calls over NCCL"
    return None
