"""A clock that shows how long a described device would take for what this process computes.

PyTorch's dispatcher tells the clock of each operation. An operation takes the longest of three times:

    floating-point operations / rate of its kind,   bytes / rate of the memory,   the host's time to start it

The bytes are those of the tensors that it reads and writes. Operations that read a tensor several times, such
as a sort, count that often; see `PASSES`. Nothing depends on the speed of this machine.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Self

import torch
from torch import Tensor, nn
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from thinwire.api.parameters import parameters
from thinwire.base.placement import counted_as_accelerator
from thinwire.config.cell import Cell
from thinwire.config.hardware import Accelerator
from thinwire.simulation.program import Compute, Post, Step, Wait
from thinwire.simulation.stand_ins import Network
from thinwire.trace.recorder import (
    BACKWARD,
    DECODE,
    FORWARD,
    HARNESS,
    INPUTS,
    NS,
    OPTIMIZER,
    Activity,
    Recorder,
    recording,
)
from thinwire.train.passes import Passes
from thinwire.train.tracing import cut_into_layers

# What only describes or names memory.
_FREE = (
    *("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"),
    *("device", "detach", "alias"),
)
# How many times as long as reading and writing its input once, on large tensors; measured on an H100.
PASSES = {"topk": 8.2, "sort": 18.0, "cumsum": 1.4, "nonzero": 2.0, "nonzero_static": 2.0}
# How many small operations they take as long as; measured there, too. A QR decomposition of a matrix with few
# columns, which is many kernels, took 0.25 to 0.5 ms on an H200.
_STARTS = {"topk": 8, "sort": 6, "nonzero": 2, "nonzero_static": 2, "linalg_qr": 20}
# One block of threads sorts a row of at most so many entries (Sorting.cpp). These were measured on such rows.
_SHORT_ROW = 4096
_STARTS_OF_SHORT = _STARTS | {"topk": 2, "sort": 3}
# These touch only the entries or rows at some positions, each in a sector of the memory of its own.
_PICKING = ("index_select", "index", "gather", "embedding", "take")
_PLACING = ("index_put_", "_index_put_impl_", "index_add_", "index_copy_", "scatter_", "scatter_add_")
_SECTOR_BYTES = 32
# Deterministic kernels, which runs use, check and sort positions before they place (Indexing.cu). This is
# what that takes beside the sort, so that decoding takes as long as on an H100.
_STARTS_OF_PLACING = 3
# On a GPU, one kernel of PyTorch's optimizers updates at most 110 to 30 tensors (MultiTensorApply.cuh).
_TENSORS_OF_AN_OPTIMIZER_KERNEL = 30

Values = Sequence[object]  # arguments of an operation


class DeviceClock(TorchDispatchMode):
    """Shows nanoseconds of a device; they pass while operations run inside this context."""

    def __init__(self, device: Accelerator) -> None:
        super().__init__()
        self._device = device
        self._seconds = 0.0

    def __enter__(self) -> Self:
        self._token = counted_as_accelerator.set(True)
        super().__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        counted_as_accelerator.reset(self._token)

    def __call__(self) -> int:
        """The time of the device, in nanoseconds from 0 on."""
        return round(self._seconds * 1e9)

    def __torch_dispatch__(
        self, func: OpOverload, types: object, args: Values = (), kwargs: Mapping[str, object] | None = None
    ) -> object:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = func.overloadpacket.__name__
        if func.is_view or name in _FREE:
            return result
        self._seconds += self._device.seconds(
            *flops_of(func, args, kwargs, result),
            bytes_of(name, args, kwargs, result),
            started=1 / _TENSORS_OF_AN_OPTIMIZER_KERNEL if _optimizes() else starts_of(name, args),
        )
        return result


def flops_of(
    func: OpOverload, args: Values, kwargs: Mapping[str, object], result: object
) -> tuple[int, bool]:
    """The floating-point operations of an operation, and whether it is a convolution.

    PyTorch's own count of the backward pass of a convolution forgets its groups.
    """
    name = func.overloadpacket.__name__
    if name == "convolution":
        (made,), (_, weight, *_) = _tensors([result]), _tensors(args)
        return 2 * made.numel() * weight[0].numel(), True
    if name == "convolution_backward":
        gradient, _, weight, *_ = _tensors(args)
        mask = args[10]
        assert isinstance(mask, Sequence)
        wanted = sum(mask[:2])  # the gradients of the input and of the weight
        return 2 * gradient.numel() * weight[0].numel() * wanted, True
    count = flop_registry.get(func.overloadpacket)
    return (int(count(*args, **kwargs, out_val=result)) if count else 0), False


def starts_of(name: str, args: Values) -> int:
    """How many small operations an operation takes as long as, at least. Rows are of the last dimension."""
    if name in _PLACING:
        positions = _positions(args)
        return _STARTS_OF_PLACING + _starts("sort", positions.numel())
    row = args[0].shape[-1] if args and isinstance(args[0], Tensor) and args[0].dim() else 1
    return _starts(name, row)


def _starts(name: str, row: int) -> int:
    return (_STARTS_OF_SHORT if row <= _SHORT_ROW else _STARTS).get(name, 1)


def bytes_of(name: str, args: Values, kwargs: Mapping[str, object], result: object) -> float:
    """The bytes that an operation reads and writes."""
    read, written = _tensors([*args, *kwargs.values()]), _tensors([result])
    if name == "copy_":
        read = read[1:]  # the target is only written
    elif name in _PICKING:
        return _bytes(read[1:]) + _bytes(written) + _scattered(args, written[0])
    elif name in _PLACING:
        sorting = PASSES["sort"] * 2 * _bytes([_positions(args)])
        return sorting + _bytes(read[1:]) + 2 * _scattered(args, read[-1])
    elif name in PASSES:
        return PASSES[name] * 2 * _bytes(read[:1])
    return _bytes(read) + _bytes(written)


def _positions(args: Values) -> Tensor:
    """Where an operation places: the second tensor of its arguments, after the one in which it does."""
    return _tensors(args)[1]


def _scattered(args: Values, values: Tensor) -> int:
    """The bytes of the sectors that hold values which lie apart."""
    return max(_bytes([values]), _SECTOR_BYTES * min(_positions(args).numel(), values.numel()))


def _tensors(values: Iterable[object]) -> list[Tensor]:
    found: list[Tensor] = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, list | tuple):
            found += _tensors(value)
    return found


def _bytes(tensors: Sequence[Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _optimizes() -> bool:
    recorder = recording.get()
    return recorder is not None and recorder.current.kind == OPTIMIZER


Span = tuple[str, str]  # the kind and the name that a recorder gives it; see `thinwire.train.tracing`


def pass_seconds(
    build: Callable[[], nn.Module],
    batch: Callable[[], tuple[Tensor, Tensor]],
    passes: Passes,
    device: Accelerator,
) -> dict[Span, float]:
    """The seconds of each span of a forward and a backward pass, which are not computed.

    The network runs on tensors that have shapes and no numbers (`FakeTensorMode`). As in the engine, it has
    the recipe's precision, and hooks that divide the passes into layers.

    Args:
        build: makes the network.
        batch: makes the inputs and the labels of a worker.
        passes: as a recipe wants them, on a CPU.
        device: that computes.
    """
    with FakeTensorMode():
        model, (inputs, labels) = build().train(), batch()
        clock = DeviceClock(device.in_passes)
        recorder = Recorder(0, clock)
        cut_into_layers(model, parameters(model), recorder)
        with clock:
            recorder.switch(Activity(FORWARD))
            passes.loss(model, inputs, labels).backward()
            recorder.cut("")
    seconds: dict[Span, float] = defaultdict(float)
    for _, (kind, name, _), begin, end in recorder.spans:
        if kind in (FORWARD, BACKWARD):
            seconds[kind, name] += (end - begin) * NS
    return dict(seconds)


def passes_of(cell: Cell, workers: int, device: Accelerator) -> dict[Span, float]:
    """The seconds of each span of both passes of a cell, on the batch that one of so many workers has.

    Raises:
        UserError: the network cannot be built for the data of the cell.
    """
    network, recipe = Network(cell), cell.recipe
    inputs = partial(blank, recipe.batch_per_worker(workers), network.shape, network.of_text)
    return pass_seconds(network.build, inputs, Passes(recipe, torch.device("cpu")), device)


def _seconds_on_device(passes: Mapping[Span, float], computed: Compute) -> float:
    """What a computation takes that a `DeviceClock` has timed, but for the passes, which have these seconds.

    What the harness does takes none.
    """
    kind, name = computed.kind, computed.name
    if kind == HARNESS:
        return 0.0
    if kind not in (FORWARD, BACKWARD):
        return computed.seconds
    if kind == BACKWARD and name.endswith(f".{INPUTS}"):
        # Of the two gradients of a layer, which cost the same, one is computed.
        return passes.get((BACKWARD, f"{name.removesuffix(INPUTS)}weight"), 0.0) / 2
    return passes.get((kind, name), 0.0)


def on_device(
    passes: Mapping[Span, float], steps: Sequence[Step], members: Mapping[str, int] | None = None
) -> list[Step]:
    """The steps, with what each computation takes on the device.

    Args:
        passes: the seconds of their spans.
        steps: timed by a `DeviceClock`.
        members: of each channel, if there are others than in these steps. Decoding what all of them gathered
            takes longer with their number.
    """
    made: list[Step] = []
    for step in steps:
        own: Step = []
        gathers = {post.call: post for post in step if isinstance(post, Post) and post.verb == "gather"}
        payloads = 1.0  # of the last answer, over those in this step
        for operation in step:
            if isinstance(operation, Wait) and members is not None:
                call = gathers.get(operation.call)
                payloads = members[call.channel] / len(call.members) if call else 1.0
            if isinstance(operation, Compute):
                seconds = _seconds_on_device(passes, operation)
                more = payloads if operation.kind == DECODE else 1.0
                operation = replace(operation, seconds=seconds * more)
            own.append(operation)
        made.append(own)
    return made


def blank(batch: int, shape: tuple[int, ...], of_text: bool) -> tuple[Tensor, Tensor]:
    """A batch of zeros: images and their classes, or windows of text and what follows each character."""
    if of_text:
        return (torch.zeros(batch, *shape, dtype=torch.int64),) * 2
    return torch.zeros(batch, *shape), torch.zeros(batch, dtype=torch.int64)
