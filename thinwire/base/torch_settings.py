"""The settings of torch that hold for the whole process: the engine makes them, and no plug-in may."""

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class _Setting(NamedTuple):
    name: str
    get: Callable[[], object]
    set: Callable[[Any], Any]


def read() -> list[object]:
    """The settings as they are now, for `restore`; none if this process has not imported torch."""
    return [setting.get() for setting in _settings()]


def restore(before: Sequence[object]) -> str | None:
    """Restore the settings; say which one had changed, and how, in a clause. None: all were as before."""
    changed = None
    for setting, value in zip(_settings(), before):
        if (now := setting.get()) != value:
            setting.set(value)
            changed = changed or f"torch's {setting.name} from {value} to {now}"
    return changed


def _settings() -> Sequence[_Setting]:
    if "torch" not in sys.modules:
        return ()
    import torch

    return (
        _Setting("default dtype", torch.get_default_dtype, torch.set_default_dtype),
        # The engine has none; one that is set to what it was costs time at every call.
        _Setting("default device", torch.get_default_device, lambda value: torch.set_default_device(None)),
        _Setting("number of threads", torch.get_num_threads, torch.set_num_threads),
        _Setting("grad mode", torch.is_grad_enabled, torch.set_grad_enabled),
        _Setting(
            "autocast on CPUs",
            lambda: torch.is_autocast_enabled("cpu"),
            lambda value: torch.set_autocast_enabled("cpu", value),
        ),
        _Setting(
            "deterministic debug mode", torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode
        ),
        _Setting(
            "float32 matmul precision", torch.get_float32_matmul_precision, torch.set_float32_matmul_precision
        ),
        *(_of_cudnn(name) for name in ("benchmark", "allow_tf32")),
    )


def _of_cudnn(name: str) -> _Setting:
    from torch.backends import cudnn

    return _Setting(f"cudnn.{name}", lambda: getattr(cudnn, name), lambda value: setattr(cudnn, name, value))
