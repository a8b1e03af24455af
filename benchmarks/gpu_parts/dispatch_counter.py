"""Counts operations, and those that would make the host wait for a GPU, on any device."""

from collections import Counter
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

# They give the host a number, or a tensor whose size it must know.
_WAITING = ("_local_scalar_dense", "nonzero", "masked_select", "unique", "_unique2", "unique_consecutive")


class DispatchCounter(TorchDispatchMode):
    """Counts what torch's dispatcher sees of one thread.

    `operations` is the number of all operations, each of which starts a kernel or more, or is a view. `waits`
    has the number of each operation that waits. There, an index with a mask counts as `mask`. A number that
    is assigned to positions counts as `number`, because torch copies it to the GPU.
    """

    def __init__(self) -> None:
        super().__init__()
        self.operations = 0
        self.waits: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.operations += 1
        name = func.overloadpacket.__name__
        if name in _WAITING:
            self.waits[name] += 1
        elif name in ("index", "index_put_", "index_put"):
            indices = [index for index in args[1] if index is not None]
            if any(index.dtype == torch.bool for index in indices):
                self.waits["mask"] += 1
            elif name != "index" and not args[2].dim():
                self.waits["number"] += 1
        return func(*args, **(kwargs or {}))
