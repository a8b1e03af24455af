"""Finds races between the streams of a worker, on CPU tensors.

torch's own sanitizer, the one of `TORCH_CUDA_SANITIZER=1`, keeps which stream reads and writes which tensor,
and which stream has waited for which. It is written in Python and asks no GPU. Here it is told of operations
on CPU tensors, and of streams that do nothing.

Two parts of one storage count as the same memory, and no memory is used twice. So what the allocator of a GPU
does between two streams is not seen, and neither is the order inside NCCL.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from types import FrameType
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from torch.cuda import _sanitizer as sanitizer
from torch.utils._python_dispatch import TorchDispatchMode

from tests import processes
from thinwire.plugins import ROOT

# What may be left out, to see that it is missed: that a call waits until the worker has computed what it
# hands over, and that the worker waits for the answer.
POSTED, ANSWER = "posted", "answer"


class Found(NamedTuple):
    """What was seen in one process."""

    operations: int
    races: Counter[str]  # each with the file and line of both operations


def find(function: Callable[..., Any], *args: Any, left_out: str = "") -> Found:
    """Run a function on the path of GPUs, in one of several processes, and tell the races of its streams.

    Args:
        function: called with `args`; it trains a worker over `tests.processes.transport`.
        args: of the function.
        left_out: `POSTED` or `ANSWER`.
    """
    streams = _Streams(left_out)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(torch, "get_device_module", lambda device: streams)
        monkeypatch.setattr(sanitizer.traceback, "walk_stack", _line_of_the_project)
        with _Operations(streams):
            processes.on_device_group(function, *args)
    return Found(streams.operations, streams.races)


class _Streams:
    """What a device module such as `torch.cuda` offers, for one process."""

    def __init__(self, left_out: str) -> None:
        self.operations, self.races = 0, Counter[str]()
        self._left_out = left_out
        self._sanitizer = sanitizer.EventHandler()
        self._storages: dict[int, torch.UntypedStorage] = {}  # kept, so that no address is used twice
        self._lock = threading.RLock()
        self._numbers = count()
        self._own = _Stream(self)  # the worker's
        self._current = threading.local()

    def Stream(self) -> "_Stream":  # noqa: N802, as in torch.cuda
        return _Stream(self)

    def current_stream(self, device: object = None) -> "_Stream":
        current: _Stream = getattr(self._current, "stream", self._own)
        return current

    @contextmanager
    def stream(self, stream: "_Stream") -> Iterator[None]:
        """Make a stream the current one of this thread, whose operations are seen meanwhile."""
        before, self._current.stream = self.current_stream(), stream
        try:
            with _Operations(self):
                yield
        finally:
            self._current.stream = before

    def open(self) -> int:
        with self._lock:
            number = next(self._numbers)
            self._sanitizer._handle_stream_creation(number)
            return number

    def record(self, stream: int) -> int:
        with self._lock:
            event = next(self._numbers)
            self._sanitizer._handle_event_creation(event)
            self._sanitizer._handle_event_record(event, stream)
            return event

    def wait(self, stream: int, event: int) -> None:
        is_left_out = self._left_out == (ANSWER if stream == self._own.number else POSTED)
        if not is_left_out:
            with self._lock:
                self._sanitizer._handle_event_wait(event, stream)

    def launch(self, schema: torch.FunctionSchema, found: "_Arguments") -> None:
        """Note an operation on the current stream, and whom it races with."""
        with self._lock:
            self.operations += 1
            self._storages |= found.storages
            races = self._sanitizer._handle_kernel_launch(
                self.current_stream().number,
                found.dataptrs_read - found.dataptrs_written,
                found.dataptrs_written,
                found.outputs,
                schema.name,
                found.tensor_aliases,
            )
        for race in races:
            assert isinstance(race, sanitizer.UnsynchronizedAccessError)
            self.races[f"{_described(race.current_access)} races {_described(race.previous_access)}"] += 1


class _Stream:
    """A stream or, in `torch.cuda`'s words, what orders operations."""

    def __init__(self, streams: _Streams) -> None:
        self._streams, self.number = streams, streams.open()

    def record_event(self) -> int:
        return self._streams.record(self.number)

    def wait_event(self, event: int) -> None:
        self._streams.wait(self.number, event)


class _Arguments(sanitizer.ArgumentHandler):
    """The storages that an operation reads and writes, of CPU tensors."""

    def __init__(self, schema: torch.FunctionSchema) -> None:
        super().__init__()
        self.storages: dict[int, torch.UntypedStorage] = {}
        # Schemas of collective calls do not say that they write to their arguments.
        self._writes = schema.name.startswith("c10d::") and schema.name != "c10d::send"

    def _handle_argument(
        self,
        value: Any,
        is_write: bool,
        metadata_only: bool,
        name: str | None = None,
        is_output: bool = False,
    ) -> None:
        if not isinstance(value, Tensor) or not value.numel():
            return
        storage = value.untyped_storage()
        place = storage.data_ptr()
        self.storages[place] = storage
        if is_write or (self._writes and "input" not in (name or "input")):
            self.dataptrs_written.add(place)
        elif not metadata_only:
            self.dataptrs_read.add(place)
        self.tensor_aliases.setdefault(place, []).append(name or "")
        if is_output:
            self.outputs.add(place)


class _Operations(TorchDispatchMode):
    """Sees the operations of one thread."""

    def __init__(self, streams: _Streams) -> None:
        super().__init__()
        self._streams = streams

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        schema = func._schema
        makes = bool(sanitizer.FACTORY_FUNCTION_REGEX.match(schema.name))
        found = _Arguments(schema)
        found.parse_inputs(schema, args, kwargs, is_factory=makes)
        result = func(*args, **kwargs)
        found.parse_outputs(schema, result, is_factory=makes)
        self._streams.launch(schema, found)
        return result


def _line_of_the_project(frame: FrameType | None) -> Iterator[tuple[FrameType, int]]:
    """The innermost frame outside torch and this file; to keep whole stacks takes longer."""
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(str(ROOT)) and "/.venv/" not in name and name != __file__:
            yield frame, frame.f_lineno
            return
        frame = frame.f_back


def _described(access: sanitizer.Access) -> str:
    """What an access does, and which line causes it."""
    place = "?"
    if access.stack_trace:
        (frame,) = access.stack_trace
        place = f"{frame.filename.removeprefix(f'{ROOT}/')}:{frame.lineno}"
    return f"{place} ({access.operator}, {access.type.name.lower()}s)"
