"""What training costs on GPUs that nobody needs to have here: an estimate for planning.

    step = both passes on the batch of a worker + exchange
    exchange = half of a dense all-reduce over links of 100 Gbit/s, if there are several nodes
    run = 20 s + steps * step

All methods count alike. Optimizers, evaluation, preparations and the time in a queue come on top.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from thinwire.base.errors import UserError
from thinwire.config.cell import Cell
from thinwire.config.hardware import Accelerator, accelerator_of, load_accelerator
from thinwire.simulation.device_clock import passes_of
from thinwire.simulation.stand_ins import dataset_of, weights
from thinwire.train.result_files import data_command, data_folder

LINK_BYTES_PER_SECOND = 12.5e9
# The other half is hidden behind the backward pass.
EXPOSED = 0.5
START_SECONDS = 20.0
_BYTES_OF_A_WEIGHT = 4


@dataclass(frozen=True)
class Cost:
    """What some blocks cost, each the runs of all methods in one job."""

    gpu_hours: float
    jobs: int
    hours: float  # of all jobs, one after the other
    longest_hours: float  # of a job
    longest: str  # the path of that block


def devices_by_name(name: str) -> Callable[[Cell], Accelerator]:
    """The device on which a cell is trained: an accelerator, or of those with a name and a precision.

    Args:
        name: see `thinwire.config.hardware.accelerator_of`; the precision is that of each cell.
    """
    of_precision = cache(lambda precision: load_accelerator(accelerator_of(name, precision)))
    return lambda cell: of_precision(cell.recipe.precision)


def cost_of(cells: Iterable[Cell], device_of: Callable[[Cell], Accelerator], results: Path) -> Cost:
    """Estimate the cost of some cells.

    Args:
        cells: that are trained, of a suite.
        device_of: gives the GPU of a cell, one for each process with workers.
        results: the folder with the data, for data sets that do not state the number of their images.

    Raises:
        UserError: the number of training images is not known, or there is no such device.
    """
    # The seconds of the passes, and the bytes of the weights.
    steps: dict[tuple[str, str, int], tuple[float, int]] = {}
    inputs: dict[str, int] = {}
    hours: dict[str, float] = defaultdict(float)
    gpu_hours = 0.0
    for cell in cells:
        batch = cell.recipe.batch_per_worker(cell.workers)
        key = cell.dataset, cell.model.label, batch
        if key not in steps:
            passes = passes_of(cell, cell.workers, device_of(cell))
            steps[key] = sum(passes.values()), _BYTES_OF_A_WEIGHT * weights(cell)
        if cell.dataset not in inputs:
            inputs[cell.dataset] = _training_inputs(cell, results)
        of_epoch = cell.recipe.epoch_steps or inputs[cell.dataset] // (batch * cell.workers)
        number = cell.recipe.epochs * of_epoch
        run_hours = (START_SECONDS + number * _step_seconds(cell, *steps[key])) / 3600
        hours[f"{cell.suite}/{cell.block}"] += run_hours
        gpu_hours += run_hours * (1 if cell.transport == "inprocess" else cell.workers)
    longest = max(hours, key=lambda block: hours[block])
    return Cost(gpu_hours, len(hours), sum(hours.values()), hours[longest], longest)


def _step_seconds(cell: Cell, pass_seconds: float, weight_bytes: int) -> float:
    """Of all workers, which take turns where they share a process."""
    if cell.transport == "inprocess":
        return pass_seconds * cell.workers
    sent = 2 * (cell.workers - 1) / cell.workers * weight_bytes if cell.nodes > 1 else 0.0
    return pass_seconds + EXPOSED * sent / LINK_BYTES_PER_SECOND


def _training_inputs(cell: Cell, results: Path) -> int:
    """As the data set states it, or else as it is laid out."""
    if (stated := dataset_of(cell).training_inputs()) is not None:
        return stated
    labels = data_folder(results, cell.dataset) / "train_labels.npy"
    if not labels.exists():
        raise UserError(
            f"{cell.dataset} does not state how many inputs it has to train on: prepare it with "
            f"{data_command(cell, results)}"
        )
    return len(np.load(labels, mmap_mode="r", allow_pickle=False))
