"""An accelerator without hardware: tensors that are not on the host, with values that are.

Its device is `pretend:0`, of the type that torch has for backends outside torch. Each tensor wraps one on the
CPU, whose kernels compute. As on any accelerator, autograd has a thread for the device, and an operation that
mixes host and device raises. Streams and events are those of `tests.fake_gpu`.

To import this module adds the device to torch for the rest of the process. That must be before its first
backward pass, after which it must not fork. So tests use it through `tests.processes.apart`.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor
from torch.utils.backend_registration import _DummyBackendModule, _setup_privateuseone_for_python_backend

from tests.fake_gpu import FakeGpu
from tests.host_waits import INDEXING, line, note_operation, note_wait, why_it_waits
from thinwire.traffic import payload


class _Module(_DummyBackendModule):
    """`torch.pretend`: what `torch.cuda` offers, which a test replaces; see `install`."""

    def __getattr__(self, name: str) -> Any:
        if name not in ("Event", "Stream", "current_stream", "set_device", "stream", "synchronize"):
            raise AttributeError(name)
        return getattr(torch.cuda, name)


_setup_privateuseone_for_python_backend("pretend", _Module())
DEVICE = torch.device("pretend", 0)
_PINNED: dict[int, torch.UntypedStorage] = {}  # kept, so that no address is used twice


def install(monkeypatch: pytest.MonkeyPatch) -> FakeGpu:
    """Replace what the engine asks of `torch.cuda`; give the GPU, which tells how often the host waited."""
    gpu = FakeGpu()
    gpu.install(monkeypatch)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: None)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (2**40, 2**40))
    monkeypatch.setattr(torch.cuda, "default_generators", (torch.Generator(),))
    monkeypatch.setattr(Tensor, "pin_memory", _pinned)
    monkeypatch.setattr(safetensors.torch, "safe_open", _safe_open)
    monkeypatch.setattr(payload, "_PLAIN", (*payload._PLAIN, OnDevice))
    return gpu


class OnDevice(Tensor):
    """A tensor of the device."""

    _there: Tensor

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, there: Tensor) -> "OnDevice":
        made = Tensor._make_wrapper_subclass(
            cls,
            there.size(),
            strides=there.stride(),
            storage_offset=there.storage_offset(),
            dtype=there.dtype,
            device=DEVICE,
        )
        made._there = there
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _carry_out(func, args, kwargs or {})

    def __repr__(self) -> str:
        return f"OnDevice({self._there})"

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        made: Tensor = OnDevice(self._there.clone())
        if isinstance(self, torch.nn.Parameter):
            made = torch.nn.Parameter(made, self.requires_grad)
        memo[id(self)] = made
        return made

    @property
    def data(self) -> Tensor:  # type: ignore[override]
        return Tensor.data.__get__(self)  # type: ignore[attr-defined]

    @data.setter
    def data(self, value: "OnDevice") -> None:
        Tensor.data.__set__(self, value)  # type: ignore[attr-defined]
        self._there = value._there

    def untyped_storage(self) -> torch.UntypedStorage:
        return self._there.untyped_storage()

    def data_ptr(self) -> int:
        return self._there.data_ptr()

    def __format__(self, form: str) -> str:
        return format(self.item() if not self.dim() else self, form)

    def tolist(self) -> Any:
        return self.cpu().tolist()

    def record_stream(self, stream: Any) -> None:
        pass


_COPIES = ("_to_copy", "copy_", "_foreach_copy_")


def _carry_out(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Compute on the CPU what an operation of the device gives."""
    name = func.overloadpacket.__name__
    inputs = _tensors((args, kwargs))
    _require_one_device(name, args, kwargs, inputs)
    to = kwargs.get("device")
    on_device = to is None or torch.device(to).type == DEVICE.type
    if name == "_to_copy":
        on_device = on_device if to is not None else isinstance(args[0], OnDevice)
        _count_copy(args[0], on_device, kwargs.get("non_blocking", False))
    elif name in _COPIES:
        for target, source in zip(*map(_tensors, args[:2])):
            _count_copy(
                source, isinstance(target, OnDevice), kwargs.get("non_blocking", False) or True in args[2:]
            )
    elif why := why_it_waits(name, args, kwargs):
        note_wait(why)
    if not func.is_view:
        note_operation()
    if to is not None:
        kwargs = kwargs | {"device": torch.device("cpu")}
    result = func(*_mapped(_there, args), **_mapped(_there, kwargs))
    if not on_device:
        return result
    # An operation in place gives the tensor that it has changed.
    known = {id(_there(value)): value for value in inputs}
    return _mapped(lambda value: known[id(value)] if id(value) in known else OnDevice(value), result)


def _there(tensor: Tensor) -> Tensor:
    return tensor._there if isinstance(tensor, OnDevice) else tensor


# torch's own walks over trees take longer than most operations here.
def _tensors(tree: Any) -> list[Tensor]:
    if isinstance(tree, Tensor):
        return [tree]
    if isinstance(tree, dict):
        tree = tree.values()
    elif not isinstance(tree, list | tuple):
        return []
    return [tensor for part in tree for tensor in _tensors(part)]


def _mapped(function: Callable[[Tensor], Tensor], tree: Any) -> Any:
    if isinstance(tree, Tensor):
        return function(tree)
    if isinstance(tree, dict):
        return {name: _mapped(function, part) for name, part in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree)(_mapped(function, part) for part in tree)
    return tree


def _require_one_device(name: str, args: Any, kwargs: Any, inputs: list[Tensor]) -> None:
    """Raise what CUDA raises.

    Numbers of no dimension may be on the host, and so may an index.
    """
    generator = kwargs.get("generator")
    if generator is not None and generator.device.type == "cpu":
        raise RuntimeError(f"{name}: expected a generator of {DEVICE} and found one of the CPU, at {line()}")
    if name in _COPIES:
        return
    indices = args[1] if name in INDEXING else ()
    for value in inputs:
        if isinstance(value, OnDevice) or not value.dim() or any(value is index for index in indices):
            continue
        if any(isinstance(other, OnDevice) for other in inputs):
            raise RuntimeError(f"{name}: expected all tensors on one device, at {line()}")


def _count_copy(source: Tensor, to_device: bool, non_blocking: bool) -> None:
    """Note a copy between host and device for which the host waits."""
    if isinstance(source, OnDevice) and not to_device:
        note_wait("copies data to the host")
    if not isinstance(source, OnDevice) and to_device and not (non_blocking and _is_pinned(source)):
        note_wait("copies data from the host")


def _pinned(tensor: Tensor) -> Tensor:
    """What `Tensor.pin_memory` gives."""
    copy = tensor.clone()
    storage = copy.untyped_storage()
    _PINNED[storage.data_ptr()] = storage
    return copy


@contextmanager
def _safe_open(filename: Any, framework: str, device: str, backend: str) -> Iterator[Any]:
    """What safetensors does with devices that it knows."""
    with safetensors.safe_open(filename, framework=framework, device="cpu", backend=backend) as file:
        tensors = file.get_tensors()
    yield SimpleNamespace(get_tensors=lambda: {name: tensor.to(device) for name, tensor in tensors.items()})


def _is_pinned(tensor: Tensor) -> bool:
    return tensor.untyped_storage().data_ptr() in _PINNED


_LIBRARY = torch.library.Library("aten", "IMPL")


def _on_device(operation: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let a function carry out an operation that has no tensor of the device among its arguments."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        _LIBRARY.impl(operation, function, "PrivateUse1")
        return function

    return register


@_on_device("empty.memory_format")
def _empty(size: Any, *, dtype: Any = None, memory_format: Any = None, **_: Any) -> Tensor:
    return OnDevice(torch.empty(size, dtype=dtype, memory_format=memory_format))


@_on_device("empty_strided")
def _empty_strided(size: Any, stride: Any, *, dtype: Any = None, **_: Any) -> Tensor:
    return OnDevice(torch.empty_strided(size, stride, dtype=dtype))


@_on_device("_copy_from")
def _copy_from(source: Tensor, target: Tensor, non_blocking: bool = False) -> Tensor:
    _count_copy(source, isinstance(target, OnDevice), non_blocking)
    _there(target).copy_(_there(source))
    return target
