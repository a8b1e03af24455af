"""The task that a cell describes, with its data in memory, and the device of a worker."""

import socket
from dataclasses import replace
from pathlib import Path

import torch

from thinwire import plugins
from thinwire.cluster import Cluster
from thinwire.config.cell import Cell
from thinwire.data import arrays
from thinwire.data.augment import Augment
from thinwire.errors import UserError
from thinwire.options import resolve
from thinwire.task import Task
from thinwire.train.paths import data_folder

# The share of the training set that is held out for tuning.
HELD_OUT = 0.1


def task_of(cell: Cell, results: Path, device: torch.device) -> Task:
    """The task of a cell, with its data in memory.

    Raises:
        PluginError: the model's module cannot be used.
        UserError: the data are not there, or not sound.
    """
    dataset = plugins.get("dataset", cell.data.use).load()
    data = arrays.load(data_folder(results, cell.dataset), dataset(resolve(dataset, cell.data.options)))
    if not cell.recipe.augment:
        data = replace(data, augment=Augment())
    model = plugins.get("model", cell.model.use).load()
    config = resolve(model, cell.model.options)
    return Task(
        build_model=lambda: model(config, data.shape, data.classes),
        data=data.held_out(HELD_OUT) if cell.evaluate_on == "held_out" else data,
        recipe=cell.recipe,
        cluster=Cluster(cell.workers, cell.nodes),
        seed=cell.seed,
        device=device,
    )


def device_of(cell: Cell, place: int = 0) -> torch.device:
    """The device of a cell's worker; of one with a process of its own, by its place on its node.

    Raises:
        UserError: it asks for a GPU, and torch finds none.
    """
    if cell.device == "cuda" and not torch.cuda.is_available():
        raise UserError(
            "the suite asks for a GPU (device: cuda) and torch finds none here: set device: cpu, or run "
            "it where there is one"
        )
    if cell.device == "cpu" or cell.transport == "inprocess":
        return torch.device(cell.device)
    there = torch.cuda.device_count()
    # Slurm may show each rank its own GPU only.
    if there > 1 and place >= there:
        raise UserError(
            f"worker {place} of {socket.gethostname()} wants a GPU of its own, and there are {there}: start "
            f"{there} workers a node"
        )
    return torch.device("cuda", place if there > 1 else 0)
