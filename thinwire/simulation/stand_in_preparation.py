"""A preparation that stands in for that of a cell, because only the sizes of what it leaves count.

The method prepares as it always does, on a few inputs and for one epoch. What it has learnt is of no use.
"""

import math
from dataclasses import replace
from pathlib import Path

from thinwire import plugins
from thinwire.api.run import Task
from thinwire.base.options import resolve
from thinwire.config.cell import Cell
from thinwire.data.arrays import Rows
from thinwire.records.result import Cost, Traffic
from thinwire.train.preparation import PreparationJob

# Of which a tenth is held out.
_INPUTS = 40


def prepare(cell: Cell, task: Task, folder: Path) -> None:
    """Let the method of a cell prepare.

    Args:
        cell: whose method it is.
        task: with inputs that stand in for those of the cell.
        folder: for what the method leaves.
    """
    method = plugins.get("method", cell.method.use).load()
    data, labels = task.data, task.data.train_labels[:_INPUTS]
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
