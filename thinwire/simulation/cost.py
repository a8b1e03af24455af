"""What training costs on GPUs that nobody needs to have here: an estimate for planning.

    step = max(operations of floating point / rate, operations of the host * 25 us) + exchange
    exchange = half of a dense all-reduce over links of 100 Gbit/s, if there are several nodes
    run = 20 s + steps * step

All methods count alike. Evaluation, preparations and the time in a queue come on top.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from thinwire import plugins
from thinwire.base.errors import UserError
from thinwire.base.options import resolve
from thinwire.config import clusters
from thinwire.config.cell import Cell
from thinwire.config.clusters import Device
from thinwire.simulation.compute import BACKWARD_OVER_FORWARD, without_numbers
from thinwire.train.result_files import data_command, data_folder

# A step of ResNet-18 has 186 operations, forward, backward and of the optimizer: 5 ms on a fast host.
HOST_SECONDS = 25e-6
LINK_BYTES_PER_SECOND = 12.5e9
# The other half is hidden behind the backward pass.
EXPOSED = 0.5
START_SECONDS = 20.0


@dataclass(frozen=True)
class Cost:
    """What some blocks cost, each the runs of all methods in one job."""

    gpu_hours: float
    jobs: int
    hours: float  # of all jobs, one after the other
    longest_hours: float  # of a job
    longest: str  # the path of that block


def devices_by_name(name: str) -> Callable[[Cell], Device]:
    """The device on which a cell is trained: that of a profile, or of those with a name and a precision.

    Args:
        name: see `thinwire.config.clusters.profile_of`; the precision is that of each cell.
    """
    of_precision = cache(lambda precision: clusters.load_profile(clusters.profile_of(name, precision)))
    return lambda cell: of_precision(cell.recipe.precision)


def cost_of(cells: Iterable[Cell], device_of: Callable[[Cell], Device], results: Path) -> Cost:
    """Estimate the cost of some cells.

    Args:
        cells: that are trained.
        device_of: gives the GPU of a cell, one for each process with workers.
        results: the folder with the data, for data sets that do not state the number of their images.

    Raises:
        UserError: the number of training images is not known, or there is no such device.
    """
    models: dict[tuple[str, str], _Model] = {}
    inputs: dict[str, int] = {}
    hours: dict[str, float] = {}
    gpu_hours = 0.0
    for cell in cells:
        key = cell.dataset, cell.model.label
        if key not in models:
            models[key] = _Model.of(cell)
        if cell.dataset not in inputs:
            inputs[cell.dataset] = _training_inputs(cell, results)
        seconds = _run_seconds(cell, inputs[cell.dataset], models[key], device_of(cell))
        block = f"{cell.suite}/{cell.block}"
        hours[block] = hours.get(block, 0.0) + seconds / 3600
        gpu_hours += seconds / 3600 * _gpus(cell)
    longest = max(hours, key=lambda block: hours[block])
    return Cost(gpu_hours, len(hours), sum(hours.values()), hours[longest], longest)


@dataclass(frozen=True)
class _Model:
    """A model on the inputs of a data set."""

    forward_flops: int  # of one input
    forward_operations: int
    weight_bytes: int

    @classmethod
    def of(cls, cell: Cell) -> Self:
        network, one = without_numbers(cell)
        flops, operations = FlopCounterMode(display=False), _OperationCounter()
        with torch.no_grad(), operations, flops:
            network(one)
        weights = sum(weight.numel() * weight.element_size() for weight in network.parameters())
        return cls(flops.get_total_flops(), operations.count, weights)


def _run_seconds(cell: Cell, inputs: int, model: _Model, device: Device) -> float:
    batch = cell.recipe.batch_per_worker(cell.workers)
    steps = cell.recipe.epochs * (inputs // (batch * cell.workers))
    passes = 1 + BACKWARD_OVER_FORWARD
    computing = passes * batch * model.forward_flops / device.flops_per_second
    # The backward pass has about two operations for each of the forward pass.
    seconds = max(computing, passes * model.forward_operations * HOST_SECONDS)
    if cell.transport == "inprocess":
        return START_SECONDS + steps * seconds * cell.workers
    if cell.nodes > 1:
        sent = 2 * (cell.workers - 1) / cell.workers * model.weight_bytes
        seconds += EXPOSED * sent / LINK_BYTES_PER_SECOND
    return START_SECONDS + steps * seconds


def _gpus(cell: Cell) -> int:
    return 1 if cell.transport == "inprocess" else cell.workers


class _OperationCounter(TorchDispatchMode):
    """Counts the operations that a host starts."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += not func.is_view
        return func(*args, **(kwargs or {}))


def _training_inputs(cell: Cell, results: Path) -> int:
    """As the data set states it, or else as it is laid out."""
    dataset = plugins.get("dataset", cell.data.use).load()
    stated: int | None = dataset(resolve(dataset, cell.data.options)).training_inputs()
    if stated is not None:
        return stated
    labels = data_folder(results, cell.dataset) / "train_labels.npy"
    if not labels.exists():
        raise UserError(
            f"{cell.dataset} does not state how many inputs it has to train on: prepare it with "
            f"{data_command(cell, results)}"
        )
    return len(np.load(labels, mmap_mode="r", allow_pickle=False))
