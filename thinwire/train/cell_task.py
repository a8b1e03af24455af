"""A cell as a task: its data, its devices and its determinism; and whose fault it is if it fails."""

import dis
import os
import socket
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch

from thinwire import plugins
from thinwire.api.run import Task
from thinwire.base import folders
from thinwire.base.errors import CannotWrite, MethodError, UserError, message_of, shortage
from thinwire.base.options import resolve
from thinwire.base.placement import Cluster, on_gpu
from thinwire.config.cell import Cell
from thinwire.data import arrays
from thinwire.data.arrays import Data, held_out
from thinwire.data.dataset import Augment
from thinwire.data.partition import clients_of
from thinwire.optim.recipe import Precision
from thinwire.plugins import CLASS, PACKAGE, PluginError, show
from thinwire.train.result_files import data_command, data_folder
from thinwire.transport.interface import Transport


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


def blame(error: BaseException) -> str | None:
    """Describe an error that is the fault of a plug-in, with its line; None if it is not a plug-in's fault.

    A plug-in is to blame for most errors, even if none of its code is in the stack (for example in autograd).
    There are three exceptions. A `UserError` or a request to end the process is a plug-in's fault only if its
    code is in the stack. An `OSError` is its fault only if its own code called the system. A lack of
    resources never is.
    """
    if shortage(error, _raised_by_plugin) is not None:
        return None
    ours = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_ours(frame)]
    last = next((frame for frame in reversed(ours) if _in_plugin(frame.filename)), None)
    if last is None and (isinstance(error, UserError | OSError) or not isinstance(error, Exception)):
        return None
    if isinstance(error, OSError) and last is not ours[-1]:
        return None
    place = f" ({show(Path(last.filename))}, line {last.lineno})" if last is not None else ""
    return f"{message_of(error)}{place}"


def _raised_by_plugin(error: BaseException) -> bool:
    """Does the error come from a `raise` statement of a plug-in, and not from something that it called?"""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return False
    code = trace.tb_frame.f_code
    return _in_plugin(code.co_filename) and code.co_code[trace.tb_lasti] == dis.opmap["RAISE_VARARGS"]


def _in_plugin(file: str) -> bool:
    places = [folder / f"{kind}s" for folder in folders.every() for kind in CLASS]
    return any(Path(file).is_relative_to(place) for place in places)


def _is_ours(frame: traceback.FrameSummary) -> bool:
    """Does the frame belong to the engine or to a plug-in, and not to a library?"""
    return _in_plugin(frame.filename) or Path(frame.filename).is_relative_to(PACKAGE)


_ERRORS = {error.__name__: error for error in (CannotWrite, MethodError, PluginError)}


@contextmanager
def all_or_none(transport: Transport) -> Iterator[None]:
    """Wrap work that each process does by itself; all processes enter it together.

    Raises:
        UserError: in all processes, marked as `known_to_all`; an error of another process names its rank.
    """
    error = None
    try:
        yield
    except UserError as own:
        error = own
    summary = None if error is None else [type(error).__name__, str(error)]
    errors = transport.share([summary for _ in transport.ranks])
    if error is None:
        first = next(((rank, each) for rank, each in enumerate(errors) if each is not None), None)
        if first is None:
            return
        rank, (name, text) = first
        error = _ERRORS.get(name, UserError)(f"rank {rank}: {text}")
    error.known_to_all = True
    raise error
