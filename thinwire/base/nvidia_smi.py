"""What nvidia-smi says about the GPUs of this machine.

The driver of NVIDIA's GPUs comes with this program. torch knows the GPUs too, but importing it takes seconds.
Where there is no nvidia-smi, no GPU is known here. If it does not answer, all functions raise a
`ResourceError`.
"""

import os
import socket
import subprocess
from contextlib import suppress
from pathlib import Path, PurePath

from thinwire.base.errors import ResourceError

# What a rank does while it waits for an answer.
ASKING = "asks nvidia-smi"
# A driver that is loaded for this question takes half a minute. One that is stuck never answers.
_MOST_SECONDS = 60.0
_PCI = Path("/sys/bus/pci/devices")
# Services of NVIDIA that may have a context on each GPU of a machine: MPS, and DCGM, which measures.
_SERVICES = ("nvidia-cuda-mps-", "nv-hostengine", "dcgm")


def visible_gpus() -> list[str]:
    """The UUIDs of the GPUs that a command started here may use.

    CUDA_VISIBLE_DEVICES may restrict them. Its numbers are taken as nvidia-smi counts.
    """
    there = {row[0]: row[1] for row in _ask("--query-gpu=index,uuid")}
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return list(there.values())
    # Of each, the number or the beginning of the UUID.
    wanted = [name.strip() for name in visible.split(",") if name.strip()]
    return [uuid for name in wanted for i, uuid in there.items() if name == i or uuid.startswith(name)]


def names() -> list[str]:
    """The product names of all GPUs of this machine, such as `NVIDIA H100 80GB HBM3`."""
    return [", ".join(row) for row in _ask("--query-gpu=name")]


def driver() -> str | None:
    """The version of the driver; None if it is unknown."""
    return next((row[0] for row in _ask("--query-gpu=driver_version")), None)


def processes_on(gpu: str) -> int:
    """How many processes compute on the GPU with this UUID, without services of NVIDIA."""
    names = [row[2] for row in _ask("--query-compute-apps=gpu_uuid,pid,process_name") if row[0] == gpu]
    return sum(not PurePath(name).name.startswith(_SERVICES) for name in names)


def cores_near(gpu: str) -> list[int]:
    """The cores that reach the GPU with this UUID without crossing to another socket; none if unknown."""
    for uuid, bus in _ask("--query-gpu=uuid,pci.bus_id"):
        if uuid == gpu:
            # nvidia-smi writes eight digits of the domain, and Linux four.
            with suppress(OSError, ValueError):
                return _cores((_PCI / bus[-12:].lower() / "local_cpulist").read_text())
    return []


def _cores(listed: str) -> list[int]:
    """The numbers in a list of Linux: `0-2,8` gives 0, 1, 2 and 8."""
    ranges = [part.split("-") for part in listed.strip().split(",") if part]
    return [core for ends in ranges for core in range(int(ends[0]), int(ends[-1]) + 1)]


def _ask(query: str) -> list[list[str]]:
    """The rows of its answer; none if there is no nvidia-smi, or if it does not reach the driver."""
    command = ["nvidia-smi", query, "--format=csv,noheader"]
    try:
        asking = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    except OSError:
        return []
    try:
        answer = asking.communicate(timeout=_MOST_SECONDS)[0]
    except subprocess.TimeoutExpired:
        asking.kill()
        # Stuck in the driver, it does not end even then. `subprocess.run` would wait for that.
        with suppress(subprocess.TimeoutExpired):
            asking.communicate(timeout=1)
        raise ResourceError(
            f"nvidia-smi does not answer within {_MOST_SECONDS:.0f} s, so a GPU of {socket.gethostname()} or "
            "its driver hangs: take another machine, or restart this one, and start again; a run goes on "
            "from its last checkpoint"
        ) from None
    return [line.split(", ", 2) for line in answer.splitlines() if line] if asking.returncode == 0 else []
