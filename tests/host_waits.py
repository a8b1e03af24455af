"""Counts the operations for which a host waits for the device of `tests.accelerator`, by line.

A host queues operations on its device and goes on. It must wait if it reads a value, or if the size of a
result depends on values. It also waits for a copy of data from memory that is not pinned.
"""

import sys
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import safetensors
import torch

from thinwire.plugins import ROOT

# Operations whose result is a value on the host, or has a size that depends on values.
_READ = ("_local_scalar_dense", "equal", "is_nonzero")
_SIZED_BY_VALUES = {
    "nonzero": "nonzero",
    "masked_select": "masked_select",
    **dict.fromkeys(("_unique", "_unique2", "unique_dim", "unique_consecutive"), "unique"),
    "bincount": "bincount",
}
INDEXING = ("index", "index_put", "index_put_", "_unsafe_index", "_index_put_impl_")

_PROJECT, _TRANSPORT = f"{ROOT}/", str(ROOT / "thinwire" / "transport")
_READS_FILES = str(Path(safetensors.__file__).parent)
_DEVICES_OWN = (__file__, str(ROOT / "tests" / "accelerator.py"))


@dataclass
class Counts:
    """What all threads did on the device. A wait is named with the line that causes it."""

    own: frozenset[str]  # files of the method
    operations: int = 0
    waits: Counter[str] = field(default_factory=Counter)  # that the method causes
    engine_waits: Counter[str] = field(default_factory=Counter)  # all others
    pauses: bool = False

    def note(self, why: str) -> None:
        """Note a wait.

        What the transport does for a call is the engine's, unless it runs a server of the method. Reading a
        file is not noted: a method does that once a run.
        """
        innermost, past_transport = "", False
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            name, line = frame.f_code.co_filename, frame.f_lineno
            if name.startswith(_READS_FILES):
                return
            if name in self.own and not past_transport:
                self.waits[f"{_place(name, line)} {why}"] += 1
                return
            if _is_ours(name):
                innermost = innermost or _place(name, line)
                past_transport |= name.startswith(_TRANSPORT)
            frame = frame.f_back
        self.engine_waits[f"{innermost} {why}"] += 1


_COUNTS: list[Counts] = []


@contextmanager
def counting(own: Iterable[Path] = ()) -> Iterator[Counts]:
    """Count what is done on the device meanwhile.

    Args:
        own: the files of the method. What they cause is apart from what the engine causes.
    """
    counts = Counts(frozenset(map(str, own)))
    _COUNTS.append(counts)
    try:
        yield counts
    finally:
        _COUNTS.remove(counts)


def note_operation() -> None:
    """Note an operation of the device."""
    for counts in _COUNTS:
        counts.operations += not counts.pauses


def note_wait(why: str) -> None:
    """Note that the host waits, and where."""
    for counts in _COUNTS:
        if not counts.pauses:
            counts.note(why)


def why_it_waits(name: str, args: Any, kwargs: Any) -> str | None:
    """Why a host waits for this operation on its device; None if it does not. Copies are told elsewhere."""
    if name in _READ:
        return "reads a value"
    if name in _SIZED_BY_VALUES:
        return f"has a result whose size depends on values ({_SIZED_BY_VALUES[name]})"
    if name == "repeat_interleave" and kwargs.get("output_size") is None:
        return "has a result whose size depends on values (repeat_interleave without output_size)"
    for index in args[1] if name in INDEXING else ():
        if index is not None and index.dtype in (torch.bool, torch.uint8):
            return "indexes with a mask"
        if index is not None and index.device.type == "cpu" and index.dim():
            return "copies an index from the host"
    if "index_put" in name and not args[2].dim() and not args[2]._is_view():
        # torch keeps the number of `tensor[positions] = number` on the host, if the device is a GPU of CUDA.
        # Of a tensor with one element it makes a view without dimensions, which stays where it is.
        return "copies a number from the host"
    return None


def line() -> str:
    """The innermost line of the project, for what is raised."""
    for place in reversed(traceback.extract_stack()):
        if _is_ours(place.filename):
            return _place(place.filename, place.lineno or 0)
    return "?"


def _is_ours(file: str) -> bool:
    return file.startswith(_PROJECT) and "/.venv/" not in file and file not in _DEVICES_OWN


def _place(file: str, line: int) -> str:
    return f"{file.removeprefix(_PROJECT)}:{line}"
