"""Data and preparations that stand in for those of a cell, because only shapes and numbers of rows count.

Random inputs stand in for those of a data set that is not there: a schedule follows from shapes alone. What a
method decides by the loss, or by which entries are large, is another with them.

For networks that no laptop trains, small inputs will do: what a worker calls depends on the shapes of its
network, and not on its inputs.
"""

import logging
import math
from copy import deepcopy
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from thinwire import plugins
from thinwire.api.model import Model
from thinwire.api.run import Task
from thinwire.base.errors import UserError, message_of
from thinwire.base.learning import CLASSIFICATION, NEXT_CHARACTER
from thinwire.base.options import resolve
from thinwire.config.cell import Cell
from thinwire.data.arrays import Data, Rows
from thinwire.data.dataset import MANIFEST, Augment, Dataset
from thinwire.records.result import Cost, Traffic
from thinwire.train.cell_task import task_of, task_with
from thinwire.train.preparation import PreparationJob
from thinwire.train.result_files import data_folder

# Random inputs repeat after so many bytes. Their labels do not, so that the loss cannot fall.
_BYTES = 16 * 2**20
# Of random bytes.
_MEAN, _STD = 127.5, 73.9


def stands_in(cell: Cell, results: Path) -> bool:
    """Are the cell's data missing, and is the number of its inputs to train on known nevertheless?"""
    missing = not (data_folder(results, cell.dataset) / MANIFEST).exists()
    return missing and dataset_of(cell).training_inputs() is not None


def task_of_shapes(cell: Cell, results: Path, device: torch.device) -> Task:
    """The task of a cell; with random inputs if its data are not there.

    Raises:
        UserError: the data are missing and their number is not known, or they are damaged.
    """
    if not stands_in(cell, results):
        return task_of(cell, results, device)
    known, stream = dataset_of(cell), torch.Generator().manual_seed(0)
    count = known.training_inputs() or 0
    different = max(1, min(count, _BYTES // torch.Size(known.shape).numel()))
    of_text = known.learning() is NEXT_CHARACTER
    values = known.classes if of_text else 256
    inputs = torch.randint(values, (different, *known.shape), dtype=torch.uint8, generator=stream)
    labels = torch.randint(known.classes, (count, *known.shape) if of_text else (count,), generator=stream)
    made = data_of(cell, Rows(inputs, torch.arange(count) % different), labels, inputs[:1], _MEAN, _STD)
    return task_with(undivided(cell), replace(made, augment=known.augment), device)


def undivided(cell: Cell) -> Cell:
    """The cell without a partition: its steps are as many and as large, and random data have no clients."""
    return replace(cell, recipe=cell.recipe.model_copy(update={"partition": "iid"}))


def data_of(cell: Cell, train: Rows, labels: Tensor, test: Tensor, mean: float, std: float) -> Data:
    """Data in memory in the place of those of a cell, with as many classes; they are not augmented.

    Inputs to train on and to test with, [n, *shape], are bytes with this mean and standard deviation.
    """
    known = dataset_of(cell)
    channels = test.shape[1] if known.learning() is CLASSIFICATION else 0
    return Data(
        name=cell.dataset,
        classes=known.classes,
        shape=tuple(test.shape[1:]),
        augment=Augment(),
        mean=(mean,) * channels,
        std=(std,) * channels,
        train_inputs=train,
        train_labels=labels,
        test_inputs=test,
        test_labels=labels[: len(test)],
        checksums={},
        task=known.learning(),
    )


def dataset_of(cell: Cell) -> Dataset:
    """The description of a cell's data, which need not be there."""
    plugin = plugins.get("dataset", cell.data.use).load()
    made: Dataset = plugin(resolve(plugin, cell.data.options))
    return made


def repeated(data: Data, inputs: int) -> Data:
    """The data set with at least so many inputs to train on; it is repeated, and no input is copied."""
    there = len(data.train_inputs)
    times = -(-inputs // there)
    if times <= 1:
        return data
    rows = torch.arange(there).repeat(times)
    return replace(
        data,
        train_inputs=Rows(data.train_inputs, rows),
        train_labels=data.train_labels[rows],
        train_file=None,
        clients=None if data.clients is None else data.clients[rows],
    )


INPUTS_OF_A_WORKER = 2  # in a step
# The side of an image, or a text's length.
_PIXELS, _CHARACTERS = 32, 2
_STEPS_AN_EPOCH = 1000  # more than are mirrored: no epoch ends


class Network:
    """The network of a cell, and the shape of its inputs."""

    def __init__(self, cell: Cell) -> None:
        known = dataset_of(cell)
        self.shape, self._classes = known.shape, known.classes
        self.of_text = known.learning() is NEXT_CHARACTER
        self._module = plugins.get("model", cell.model.use).load()
        self._config = resolve(self._module, cell.model.options)

    def build(self, shape: tuple[int, ...] | None = None) -> Model:
        """Make it, for inputs of another shape if one is given."""
        made: Model = self._module(self._config, shape or self.shape, self._classes)
        return made

    def copy(self) -> Model:
        """The network, which is initialised once: of a large one, that takes longer than a step."""
        return deepcopy(self._made)

    @cached_property
    def _made(self) -> Model:
        return self.build()

    def small_shape(self) -> tuple[int, ...]:
        """Of small inputs; of the true ones, if the weights depend on the size of the images."""
        if self.of_text:
            return (_CHARACTERS,)
        small = (self.shape[0], *(min(side, _PIXELS) for side in self.shape[1:]))
        with torch.device("meta"):
            try:
                one, other = (
                    [w.shape for w in self.build(each).parameters()] for each in (small, self.shape)
                )
            except UserError:  # the network wants images of one size
                return self.shape
        return small if one == other else self.shape


def weights(cell: Cell) -> int:
    """The number of weights of the cell's network, which is built without memory for them.

    Raises:
        UserError: it cannot be built for the data of the cell.
    """
    with torch.device("meta"):
        return sum(weight.numel() for weight in Network(cell).build().parameters())


def require_fit(cell: Cell) -> None:
    """Run the network of a cell on inputs that have the shape of its data and no numbers.

    Raises:
        UserError: it cannot take them.
    """
    network = Network(cell)
    kind = torch.int64 if network.of_text else torch.float32
    logging.getLogger("torch._subclasses.fake_tensor").setLevel(logging.CRITICAL)  # it writes tracebacks
    try:
        with FakeTensorMode(), torch.no_grad():
            network.build()(torch.zeros(INPUTS_OF_A_WORKER, *network.shape, dtype=kind))
    except Exception as error:
        # A module may raise anything where it is given other data than it was written for.
        raise UserError(
            f"{cell.model.label} cannot be tried on {cell.dataset}, whose inputs have the shape "
            f"{network.shape}: let its layers follow from the shape that it is given, or give --parameters "
            f"and --step-seconds in place of --model ({reason_of(error)})"
        ) from None


def reason_of(error: Exception) -> str:
    """Why a method or a network cannot be simulated: its modules may raise anything without their data."""
    return str(error) if isinstance(error, UserError) else message_of(error)


def small_task(network: Network, cell: Cell, results: Path, device: torch.device) -> Task:
    """The task of a cell, with one small input again and again; its network is that of the true inputs."""
    shape = network.small_shape()
    rows = torch.zeros(_STEPS_AN_EPOCH * INPUTS_OF_A_WORKER * cell.workers, dtype=torch.int64)
    one = torch.zeros((1, *shape), dtype=torch.uint8)
    labels = rows[:, None].expand(-1, *shape) if network.of_text else rows
    data = data_of(cell, Rows(one, rows), labels, test=one, mean=0.0, std=1.0)
    task = task_with(undivided(cell), data, device)
    return replace(task, build_model=network.copy)


_PREPARED_WITH = 40  # inputs, of which a tenth is held out


def prepare_small(cell: Cell, task: Task, folder: Path) -> None:
    """Let the method of a cell prepare, as it always does, on a few inputs and for one epoch.

    The sizes of what it leaves in the folder are those of a whole preparation. What it has learnt is of no
    use.
    """
    method = plugins.get("method", cell.method.use).load()
    data, labels = task.data, task.data.train_labels[:_PREPARED_WITH]
    few = replace(data, train_inputs=Rows(data.train_inputs, labels * 0), train_labels=labels)
    short = task.recipe.model_copy(update={"epochs": 1, "evaluate_every_epochs": 1})
    job = PreparationJob(
        replace(task, data=few, recipe=short),
        cell.model.use,
        folder,
        spent=Cost(seconds=0.0, traffic=Traffic.sum([])),
        note=lambda cost: None,
        checkpoint_every_seconds=math.inf,
    )
    method.prepare(resolve(method, cell.method.options), job, folder)
