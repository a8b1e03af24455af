"""What nvidia-smi says about the GPUs of this machine.

The driver of NVIDIA's GPUs comes with this program. torch knows the GPUs too, but importing it takes seconds.
Where there is no nvidia-smi, no GPU is known here.
"""

import os
import subprocess


def visible_gpus() -> list[str]:
    """The UUIDs of the GPUs that a command started here may use.

    CUDA_VISIBLE_DEVICES may restrict them. Its numbers are taken as nvidia-smi counts.
    """
    there = {row[0]: row[1] for row in _ask("--query-gpu=index,uuid")}
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return list(there.values())
    wanted = [name.strip() for name in visible.split(",")]
    return [uuid for name in wanted if name for uuid in _named(name, there)]


def processes_on(gpu: str) -> int:
    """How many processes compute on the GPU with this UUID."""
    return sum(uuid == gpu for uuid, _ in _ask("--query-compute-apps=gpu_uuid,pid"))


def _named(name: str, there: dict[str, str]) -> list[str]:
    """The GPU with this number, or whose UUID begins with this text."""
    return [uuid for number, uuid in there.items() if name == number or uuid.startswith(name)]


def _ask(query: str) -> list[list[str]]:
    """The rows of its answer; none if there is no nvidia-smi, or if it does not reach the driver."""
    command = ["nvidia-smi", query, "--format=csv,noheader"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return []
    return [line.split(", ") for line in answer.splitlines() if line]
