"""Builds the task of a cell."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from thinwire import plugins
from thinwire.config.cell import Cell
from thinwire.data import arrays
from thinwire.data.arrays import Data
from thinwire.data.batches import held_out
from thinwire.data.dataset import Augment
from thinwire.options import resolve
from thinwire.task import Task
from thinwire.train.make_again import data_command
from thinwire.train.result_folders import data_folder
from thinwire.worker_placement import Cluster


def task_of(
    cell: Cell,
    results: Path,
    device: torch.device,
    verify: bool = True,
    progress: Callable[[str], None] = lambda what: None,
) -> Task:
    """The task of a cell, with its data in memory.

    Args:
        cell: of the task.
        results: the folder with the data.
        device: of the workers.
        verify: the data; another process of this node does so otherwise.
        progress: called again and again while data are verified, with a description.

    Raises:
        PluginError: the model's module cannot be used.
        UserError: the data are missing or damaged.
    """
    dataset = plugins.get("dataset", cell.data.use).load()
    made = dataset(resolve(dataset, cell.data.options))
    folder = data_folder(results, cell.dataset)
    return task_with(cell, arrays.load(folder, made, data_command(cell, results), verify, progress), device)


def task_with(cell: Cell, data: Data, device: torch.device) -> Task:
    """The task of a cell, with these data of its data set.

    Raises:
        PluginError: the model's module cannot be used.
    """
    if not cell.recipe.augment:
        data = replace(data, augment=Augment())
    model = plugins.get("model", cell.model.use).load()
    config = resolve(model, cell.model.options)
    return Task(
        build_model=lambda: model(config, data.shape, data.classes),
        data=held_out(data) if cell.evaluate_on == "held_out" else data,
        recipe=cell.recipe,
        cluster=Cluster(cell.workers, cell.nodes),
        seed=cell.seed,
        device=device,
    )
