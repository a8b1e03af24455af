"""Finds, on CPU tensors, the operations of a method for which a host would wait for its GPU.

A host queues operations on a GPU and goes on. It must wait if it reads a value, if the size of a result
depends on values, or if it copies data. Such an operation is a *host synchronisation*.

All tensors of a test are on the CPU. Some of them would be on the host of a GPU, too: those that were made
without the argument `device`, or from such tensors only. All others count as on the GPU.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import safetensors
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakIdKeyDictionary

from thinwire.plugins import ROOT

# Operations whose result is a value on the host, or has a size that depends on values.
_WAITING = {
    "_local_scalar_dense": "reads a value, as .item(), bool(), int() and float() do",
    "equal": "reads a value, as torch.equal does",
    "nonzero": "has a result whose size depends on values (nonzero)",
    "masked_select": "has a result whose size depends on values (masked_select)",
    "_unique": "has a result whose size depends on values (unique)",
    "_unique2": "has a result whose size depends on values (unique)",
    "unique_dim": "has a result whose size depends on values (unique)",
    "unique_consecutive": "has a result whose size depends on values (unique)",
    "bincount": "has a result whose size depends on values (bincount)",
}
_INDEXING = ("index", "index_put", "index_put_", "_unsafe_index")
_TO_HOST = ("tolist", "numpy", "cpu")
_MAKES_FROM_DATA = ("tensor", "as_tensor", "asarray")
_NOT_NOTED = str(ROOT / "thinwire" / "transport"), str(Path(safetensors.__file__).parent)


class HostSync(NamedTuple):
    """A host synchronisation, and where in the method's files it was caused."""

    operation: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line} {self.operation}"


class HostSyncs:
    """Inside `counting`, notes the host synchronisations that are caused by lines of some files.

    What the transport does for a call is the transport's, unless it runs a server of the method. Reading
    a file is not noted either: a method does that once a run.
    """

    def __init__(self, files: Sequence[Path]) -> None:
        self.found: list[HostSync] = []
        self._files = {str(file): f"{file.parent.name}/{file.name}" for file in files}
        self._on_host = WeakIdKeyDictionary()
        self._noting = True

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Note the synchronisations from now on."""
        with _Functions(self), _Operations(self):
            yield

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Note nothing meanwhile."""
        self._noting = False
        try:
            yield
        finally:
            self._noting = True

    def is_on_host(self, tensor: Tensor) -> bool:
        return tensor in self._on_host

    def put_on_host(self, result: Any) -> None:
        for tensor in _tensors(result):
            self._on_host[tensor] = True

    def put_on_gpu(self, tensor: Tensor) -> None:
        self._on_host.pop(tensor, None)

    def note(self, operation: str) -> None:
        """Note an operation if a line of the files has caused it."""
        frame = sys._getframe(1) if self._noting else None
        while frame is not None:
            path = frame.f_code.co_filename
            if path in self._files:
                self.found.append(HostSync(operation, self._files[path], frame.f_lineno))
                return
            if path.startswith(_NOT_NOTED):
                return
            frame = frame.f_back


class _Operations(TorchDispatchMode):
    """Sees operations, also those inside functions of torch."""

    def __init__(self, syncs: HostSyncs) -> None:
        super().__init__()
        self._syncs = syncs

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        inputs = _tensors((args, kwargs))
        on_host = [self._syncs.is_on_host(tensor) for tensor in inputs]
        operation = _why_it_waits(func.overloadpacket.__name__, args, kwargs, on_host)
        if operation is not None and not all(on_host):
            self._syncs.note(operation)
        result = func(*args, **kwargs)
        if inputs and all(on_host):
            self._syncs.put_on_host(result)
        return result


class _Functions(TorchFunctionMode):
    """Sees calls of torch: what they make without a device, and copies, which are no operations on CPUs."""

    def __init__(self, syncs: HostSyncs) -> None:
        super().__init__()
        self._syncs = syncs

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = getattr(func, "__name__", "")
        if not isinstance(args[0] if args else None, Tensor):
            if not _tensors((args, kwargs)):
                if kwargs.get("device") is None:
                    self._syncs.put_on_host(result)
                elif name in _MAKES_FROM_DATA:
                    self._syncs.note(f"copies data from the host to the GPU (torch.{name})")
        elif name == "new_tensor":
            self._syncs.note("copies data from the host to the GPU (new_tensor)")
        elif name in _TO_HOST or name == "to":
            return self._copied(name, result, args, kwargs)
        return result

    def _copied(self, name: str, result: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Note a copy between host and GPU; gives its result."""
        from_host = self._syncs.is_on_host(args[0])
        if not from_host and (name in _TO_HOST or "cpu" in (*args[1:], kwargs.get("device"))):
            self._syncs.note(f"copies data from the GPU to the host ({name})")
        if from_host and name == "to" and _names_a_device(args[1:], kwargs):
            if not kwargs.get("non_blocking"):
                self._syncs.note("copies data from the host to the GPU (to)")
            # A copy, as on a GPU: the tensor itself stays on the host.
            result = result.clone()
            self._syncs.put_on_gpu(result)
        return result


def _why_it_waits(name: str, args: Any, kwargs: Any, on_host: list[bool]) -> str | None:
    """Why a host waits for this operation on the GPU; None if it does not."""
    if name in _WAITING:
        return _WAITING[name]
    if name == "repeat_interleave" and kwargs.get("output_size") is None:
        return "has a result whose size depends on values (repeat_interleave without output_size)"
    if name in _INDEXING and any(
        index is not None and index.dtype in (torch.bool, torch.uint8) for index in args[1]
    ):
        return "indexes with a mask"
    if name == "copy_" and any(on_host) and not (kwargs.get("non_blocking") or True in args[2:]):
        return "copies data between the host and the GPU (copy_)"
    return None


def _names_a_device(args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
    return kwargs.get("device") is not None or any(isinstance(a, torch.device | str | Tensor) for a in args)


def _tensors(tree: Any) -> list[Tensor]:
    """The tensors in arguments; torch's own walk over trees takes longer than most operations here."""
    if isinstance(tree, Tensor):
        return [tree]
    if isinstance(tree, dict):
        tree = tree.values()
    elif not isinstance(tree, list | tuple):
        return []
    return [tensor for part in tree for tensor in _tensors(part)]
