"""Four ranks on one device: gloo carries their tensors through the host, and NCCL is refused."""

import ranks
import torch

from gpu_parts import small_run
from gpu_parts.part import Found, Place
from thinwire.base.errors import UserError
from thinwire.launch.rank import require_gpus_of_their_own
from thinwire.train.cell_task import deterministic
from thinwire.train.trainer import Trainer
from thinwire.transport.device import GLOO
from thinwire.transport.processes import Processes

RANKS = 4
# Of a weight: gloo adds in another order.
MOST_DIFFERENCE = 1e-12


def part(place: Place, found: Found) -> None:
    """Compare the weights of ranks with those of workers in one process.

    The ranks are forks of this process, so it uses the device only after them.
    """
    of_ranks = ranks.run(_rank, RANKS, place.device)[0]
    run = small_run.trainer(small_run.task(place.device), "ssgd", {})
    run.train()
    differs = max(abs(a - b) for a, b in zip(of_ranks, _numbers(run), strict=True))
    found.figures["from_one_process"] = differs
    if not differs <= MOST_DIFFERENCE:
        found.broken.append(f"a weight of four ranks differs by {differs:.1e} from that in one process")
    try:
        require_gpus_of_their_own(["the same GPU"] * RANKS, ["this node"] * RANKS)
        found.broken.append("ranks that share a GPU were not refused")
    except UserError as error:
        found.figures["nccl"] = f"refused: {error}"


def _rank(device: torch.device) -> list[float]:
    deterministic(device)
    task = small_run.task(device)
    transport = Processes(task.cluster, device, GLOO)
    run = Trainer(task, *small_run.method("ssgd"), transport)
    run.setup(None)
    run.train()
    made = _numbers(run)
    transport.close()
    return made


def _numbers(run: Trainer) -> list[float]:
    """The weights of the first worker."""
    return [number for weight in run.shipped()[0] for number in weight.flatten().tolist()]
