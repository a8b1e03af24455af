"""A cell as a task: its data, its devices and its determinism."""

import os
import socket
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from thinwire import plugins
from thinwire.api.run import Task
from thinwire.base.errors import UserError
from thinwire.base.options import resolve
from thinwire.base.placement import Cluster, on_gpu
from thinwire.config.cell import Cell
from thinwire.data import arrays
from thinwire.data.arrays import Data, held_out
from thinwire.data.dataset import Augment
from thinwire.data.order import clients_of
from thinwire.optim.recipe import Precision
from thinwire.train.result_files import data_command, data_folder


def task_of(
    cell: Cell,
    results: Path,
    device: torch.device,
    verify: bool = True,
    progress: Callable[[str], None] = lambda what: None,
) -> Task:
    """The task of a cell, with its data in memory; `verify` and `progress` are those of `arrays.load`.

    Raises:
        PluginError: the model's module cannot be used.
        UserError: the data are missing or damaged, or have no clients for a natural partition.
    """
    dataset = plugins.get("dataset", cell.data.use).load()
    made = dataset(resolve(dataset, cell.data.options))
    folder = data_folder(results, cell.dataset)
    data = arrays.load(folder, made, data_command(cell, results), verify, progress)
    if cell.recipe.partition == "natural":
        data = replace(data, clients=clients_of(data, made))
    return task_with(cell, data, device)


def task_with(cell: Cell, data: Data, device: torch.device) -> Task:
    """The task of a cell, with these data of its data set; a `PluginError` if its model cannot be used."""
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


def device_of(cell: Cell, local_rank: int = 0) -> torch.device:
    """The device of one worker of a cell; `local_rank` is its number on its node, if it has a process.

    Raises:
        UserError: the cell asks for a GPU that this machine does not have, or for a part of one.
    """
    if cell.device == "cuda" and not torch.cuda.is_available():
        raise UserError(
            "the suite asks for a GPU (device: cuda), but torch finds none here: set device: cpu, or "
            "use a machine with a GPU"
        )
    if cell.device == "cpu":
        return torch.device("cpu")
    if cell.transport == "inprocess":
        return _whole(torch.device("cuda", 0))
    gpus = torch.cuda.device_count()
    # Slurm may show each rank only its own GPU.
    if gpus > 1 and local_rank >= gpus:
        raise UserError(
            f"worker {local_rank} of {socket.gethostname()} needs a GPU of its own, but there are "
            f"{gpus}: start {gpus} workers on each node"
        )
    return _whole(torch.device("cuda", local_rank if gpus > 1 else 0))


def _whole(device: torch.device) -> torch.device:
    """Return the device, if it is a whole GPU: parts (MIG) share a bus, and NCCL does not connect them."""
    name = torch.cuda.get_device_name(device)
    if " MIG " in name:
        raise UserError(
            f"{name} of {socket.gethostname()} is a part of a GPU (MIG): take a whole one, for example with "
            "gpu_type in slurm/config.yaml, or have MIG switched off"
        )
    return device


# NVIDIA's GPUs from Ampere on have tensor cores for TF32 and for bfloat16.
_AMPERE = (8, 0)


def require_precision(device: torch.device, precision: Precision) -> None:
    """Require that a GPU computes in the precision of a recipe.

    Raises:
        UserError: it is older, and only imitates it.
    """
    if precision == "fp32" or device.type != "cuda":
        return
    if torch.cuda.get_device_capability(device) < _AMPERE:
        raise UserError(
            f"recipe.precision: {torch.cuda.get_device_name(device)} has no {precision}, which NVIDIA's GPUs "
            "have from Ampere on: take fp32, or another GPU"
        )


def deterministic(device: torch.device, precision: Precision = "fp32") -> None:
    """Use one thread, deterministic kernels and one precision for the rest of this process.

    By default, convolutions on a GPU round their inputs to TF32, which has 10 bits of mantissa. Products of
    matrices do not. Here both do so if the precision is `tf32`, and otherwise neither does. A setting for the
    passes alone would be a race, because servers compute in other threads at the same time. For `bf16` see
    `thinwire.train.passes`.

    With deterministic kernels, torch by default also fills each new tensor with NaN. Runs do without, because
    it costs a memory pass. The tests switch it on again, to find reads of memory that nobody has written.
    """
    if on_gpu(device):
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.backends.cudnn.benchmark = False
        torch.backends.cudnn.allow_tf32 = precision == "tf32"
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    torch.set_num_threads(1)
    # Does what use_deterministic_algorithms(True) does, without spending seconds on importing inductor.
    torch.set_deterministic_debug_mode("error")
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
