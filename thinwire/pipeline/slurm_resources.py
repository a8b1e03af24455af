"""The nodes, ranks, cores and GPUs that a job asks of Slurm; for its memory see `job_memory`."""

from collections.abc import Callable
from typing import Any

from thinwire.config.cell import Cell
from thinwire.slurm_time_limit import BEFORE_TIME_LIMIT, SAVING_SECONDS

# A signal before the time limit, on which a job saves its state.
SIGNAL = f"--signal={BEFORE_TIME_LIMIT.name.removeprefix('SIG')}@{SAVING_SECONDS}"


def nodes(cell: Cell) -> int:
    """The nodes of a job."""
    return cell.nodes if cell.transport == "processes" else 1


def ranks(cell: Cell) -> int:
    """The ranks of a job: one for each worker, or one for all of them."""
    return cell.workers if cell.transport == "processes" else 1


def gres(workflow: Any, gpus: Callable[[Cell], int]) -> Callable[[Cell], str]:
    """Give a function for the GPUs of a node as Slurm counts them: `gpu:4`, or `gpu:a100:4` with a type.

    Args:
        workflow: of snakemake; the type is among its default resources.
        gpus: gives the number of GPUs of a cell on each node.
    """
    name = ":".join(["gpu", *filter(None, [default_setting(workflow, "gpu_type")])])
    return lambda cell: f"{name}:{gpus(cell)}" if gpus(cell) else ""


def default_setting(workflow: Any, name: str) -> str:
    """A setting among the default resources in slurm/config.yaml; empty if there is none.

    Args:
        workflow: of snakemake.
        name: of the setting.
    """
    defaults = workflow.resource_settings.default_resources
    given = [] if defaults is None else [each.split("=", 1) for each in defaults.args]
    return next((value.strip("'\" ") for key, value in given if key == name), "")


def cpus_per_rank(cell: Cell) -> int:
    """More with a GPU, which processors have to feed; emulated nodes are all in one task."""
    if cell.transport == "emulated":
        return cell.workers
    return 4 if cell.device == "cuda" else 1


def launcher(cell: Cell) -> str:
    """What starts the ranks; nothing for a single one."""
    return "srun" if ranks(cell) > 1 else ""


def step_of_one_task(workflow: Any) -> str:
    """What starts a command in a step of Slurm; nothing on this machine.

    Slurm sends signals to steps, and none to the batch script in which the jobs of snakemake begin.
    """
    return "srun --nodes=1 --ntasks=1" if workflow.remote_exec else ""


def step(workflow: Any) -> Callable[[Cell], str]:
    """Give a function for what starts the command of a cell; several ranks it starts in a step by itself."""
    return lambda cell: "" if launcher(cell) else step_of_one_task(workflow)


def more_options(cell: Cell) -> str:
    """As many ranks on each node, and a signal before the time limit, on which they save their state."""
    return f"--ntasks-per-node={ranks(cell) // nodes(cell)} {SIGNAL}"
