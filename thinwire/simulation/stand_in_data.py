"""Data that stand in for those of a cell, because only shapes and numbers of rows count.

Random inputs stand in for those of a data set that is not there: a schedule follows from shapes alone.

What a method decides by the loss, or by which entries are large, is another with them.
"""

from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from thinwire import plugins
from thinwire.api.run import Task
from thinwire.base.learning import CLASSIFICATION, NEXT_CHARACTER
from thinwire.base.options import resolve
from thinwire.config.cell import Cell
from thinwire.data.arrays import Data, Rows
from thinwire.data.dataset import MANIFEST, Augment, Dataset
from thinwire.train.cell_task import task_of, task_with
from thinwire.train.result_files import data_folder

# Random inputs repeat after so many bytes. Their labels do not, so that the loss cannot fall.
_BYTES = 16 * 2**20
# Of random bytes.
_MEAN, _STD = 127.5, 73.9


def stands_in(cell: Cell, results: Path) -> bool:
    """Are the cell's data missing, and is the number of its inputs to train on known nevertheless?"""
    missing = not (data_folder(results, cell.dataset) / MANIFEST).exists()
    return missing and _dataset(cell).training_inputs() is not None


def task_of_shapes(cell: Cell, results: Path, device: torch.device) -> Task:
    """The task of a cell; with random inputs if its data are not there.

    Raises:
        UserError: the data are missing and their number is not known, or they are damaged.
    """
    if not stands_in(cell, results):
        return task_of(cell, results, device)
    known, stream = _dataset(cell), torch.Generator().manual_seed(0)
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
    """Data in memory with as many classes as those of the cell have; they are not augmented.

    Args:
        cell: in the place of whose data they are.
        train: the inputs to train on, as bytes.
        labels: of these inputs.
        test: inputs to test with, as bytes [n, *shape].
        mean: of the bytes.
        std: of the bytes.
    """
    known = _dataset(cell)
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


def _dataset(cell: Cell) -> Dataset:
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
