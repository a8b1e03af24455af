"""The settings of torch that hold for the whole process: the engine makes them, and no plug-in may."""

import sys
from collections.abc import Callable, Sequence
from functools import partial

# Its name, and how it is read and written.
_Setting = tuple[str, Callable[[], object], Callable[..., object]]


def read() -> list[object]:
    """The settings as they are now, for `restore`; none if this process has not imported torch."""
    return [get() for _, get, _ in _settings()]


def restore(before: Sequence[object]) -> str | None:
    """Restore the settings; say which one had changed, and how, in a clause. None: all were as before."""
    changed = None
    for (name, get, write), value in zip(_settings(), before):
        if (now := get()) != value:
            write(value)
            changed = changed or f"torch's {name} from {value} to {now}"
    return changed


def _settings() -> Sequence[_Setting]:
    if "torch" not in sys.modules:
        return ()
    import torch
    from torch.backends import cudnn

    autocast = partial(torch.is_autocast_enabled, "cpu"), partial(torch.set_autocast_enabled, "cpu")
    return (
        ("default dtype", torch.get_default_dtype, torch.set_default_dtype),
        # The engine has none; one that is set to what it was costs time at every call.
        ("default device", torch.get_default_device, lambda value: torch.set_default_device(None)),
        ("number of threads", torch.get_num_threads, torch.set_num_threads),
        ("grad mode", torch.is_grad_enabled, torch.set_grad_enabled),
        ("autocast on CPUs", *autocast),
        ("deterministic debug mode", torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode),
        ("float32 matmul precision", torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
        *(
            (f"cudnn.{name}", partial(getattr, cudnn, name), partial(setattr, cudnn, name))
            for name in ("benchmark", "allow_tf32")
        ),
    )
