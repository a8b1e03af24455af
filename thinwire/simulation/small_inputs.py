"""The network of a cell, and a task with small inputs in place of the cell's data.

What a worker calls depends on the shapes of its network and not on its inputs, so small ones will do.
"""

from copy import deepcopy
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import torch

from thinwire import plugins
from thinwire.api.model import Model
from thinwire.api.run import Task
from thinwire.base.errors import UserError
from thinwire.base.learning import NEXT_CHARACTER
from thinwire.base.options import resolve
from thinwire.config.cell import Cell
from thinwire.data.arrays import Rows
from thinwire.simulation import stand_in_data
from thinwire.train.cell_task import task_with

INPUTS_OF_A_WORKER = 2  # in a step
# The side of an image, or a text's length.
_PIXELS, _CHARACTERS = 32, 2
_STEPS_AN_EPOCH = 1000  # more than are mirrored: no epoch ends


class Network:
    """The network of a cell, and the shape of its inputs."""

    def __init__(self, cell: Cell) -> None:
        dataset = plugins.get("dataset", cell.data.use).load()
        known = dataset(resolve(dataset, cell.data.options))
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


def task_of(network: Network, cell: Cell, results: Path, device: torch.device) -> Task:
    """The task of a cell, with one small input again and again; its network is that of the true inputs."""
    shape = network.small_shape()
    rows = torch.zeros(_STEPS_AN_EPOCH * INPUTS_OF_A_WORKER * cell.workers, dtype=torch.int64)
    one = torch.zeros((1, *shape), dtype=torch.uint8)
    labels = rows[:, None].expand(-1, *shape) if network.of_text else rows
    data = stand_in_data.data_of(cell, Rows(one, rows), labels, test=one, mean=0.0, std=1.0)
    task = task_with(stand_in_data.undivided(cell), data, device)
    return replace(task, build_model=network.copy)
