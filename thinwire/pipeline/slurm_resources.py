"""The nodes, ranks, cores and GPUs that a job asks of Slurm; slurm/config.yaml sets its time and memory."""

from thinwire.config.cell import Cell
from thinwire.launch.gpu_claims import gpus_of
from thinwire.slurm_time_limit import BEFORE_TIME_LIMIT, SAVING_SECONDS


def nodes(cell: Cell) -> int:
    """The nodes of a job."""
    return cell.nodes if cell.transport == "processes" else 1


def ranks(cell: Cell) -> int:
    """The ranks of a job: one for each worker, or one for all of them."""
    return cell.workers if cell.transport == "processes" else 1


def gpus(cell: Cell) -> str:
    """The GPUs of a node, as Slurm counts them: one for each rank."""
    return f"gpu:{gpus_of(cell)}" if cell.device == "cuda" else ""


def cpus_per_rank(cell: Cell) -> int:
    """More with a GPU, which processors have to feed; emulated nodes are all in one task."""
    if cell.transport == "emulated":
        return cell.workers
    return 4 if cell.device == "cuda" else 1


def launcher(cell: Cell) -> str:
    """What starts the ranks; nothing for a single one."""
    return "srun" if ranks(cell) > 1 else ""


def more_options(cell: Cell) -> str:
    """As many ranks on each node, and a signal before the time limit, on which they save their state."""
    name = BEFORE_TIME_LIMIT.name.removeprefix("SIG")
    return f"--ntasks-per-node={ranks(cell) // nodes(cell)} --signal={name}@{SAVING_SECONDS}"
