"""The memory that a job on a cluster asks for on each of its nodes; docs/cluster.md states the arithmetic."""

import json
import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from thinwire import plugins
from thinwire.config.cell import Cell
from thinwire.config.types import Module
from thinwire.options import resolve

# Of a process: torch, CUDA, batches and activations.
PROCESS_MEGABYTES = 4_000
# Of a replica, as multiples of its weights: weights, gradients, momentum, three more for what a method
# remembers, and six for a checkpoint, which is a copy.
COPIES_OF_WEIGHTS = 12
# In slurm/config.yaml: the user has set no memory.
_NOT_SET = "mem_mb=0"


def resource(
    workflow: Any, cells_of: Callable[[Any], Sequence[Cell]], one_process: bool = False
) -> dict[str, Callable[..., int]]:
    """The resource `mem_mb` of a rule; empty if the user has set it, or if no job is sent from here.

    Args:
        workflow: of snakemake.
        cells_of: gives the cells of a job from its wildcards.
        one_process: whether the job has a single process, however its cells are trained.
    """
    defaults = workflow.resource_settings.default_resources
    if not workflow.is_main_process or defaults is None or _NOT_SET not in defaults.args:
        return {}

    # snakemake recognises the names of the arguments.
    def mem_mb(wildcards: Any, input: Any, attempt: int) -> int:  # noqa: A002
        given = [input.data] if isinstance(input.data, str) else input.data
        data = data_bytes(given)
        return attempt * max(of_node(cell, data, one_process) for cell in cells_of(wildcards))

    return {"mem_mb": mem_mb}


def of_node(cell: Cell, data: int, one_process: bool = False) -> int:
    """Megabytes for a node of a cell.

    Args:
        cell: to train.
        data: bytes of its data set, of which the processes of a node share one copy.
        one_process: whether one process has all workers, however the cell is trained.
    """
    alone = one_process or cell.transport == "inprocess"
    replicas = cell.workers // cell.nodes if cell.transport == "processes" and not alone else cell.workers
    processes = 1 if alone else replicas
    weights = weight_bytes(cell.model, cell.data)
    return processes * PROCESS_MEGABYTES + math.ceil((data + replicas * COPIES_OF_WEIGHTS * weights) / 1e6)


def data_bytes(manifests: Iterable[str]) -> int:
    """Bytes of the files of data sets.

    Raises:
        FileNotFoundError: one is not laid out yet; then snakemake asks again when it is.
    """
    listed = [json.loads(Path(path).read_text(encoding="utf-8"))["files"] for path in manifests]
    return sum(file["bytes"] for files in listed for file in files.values())


def weight_bytes(model: Module, data: Module) -> int:
    """Bytes of the weights of a model, which is built without numbers."""
    return _weight_bytes(json.dumps([model.use, model.options, data.use, data.options]))


@cache
def _weight_bytes(modules: str) -> int:
    import torch  # which jobs need not import to read their rules

    model_use, model_options, data_use, data_options = json.loads(modules)
    # A broken plug-in fails again in the job, where the failure is a result.
    with suppress(Exception):
        dataset, model = (
            plugins.get(kind, use).load() for kind, use in (("dataset", data_use), ("model", model_use))
        )
        images = dataset(resolve(dataset, data_options))
        with torch.device("meta"):
            network = model(resolve(model, model_options), images.shape, images.classes)
        return sum(tensor.numel() * tensor.element_size() for tensor in network.parameters())
    return 0
