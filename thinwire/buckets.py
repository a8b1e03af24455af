"""Buckets: groups of parameters whose gradients are sent together, and the order of these groups."""

from dataclasses import dataclass, field

from torch import Tensor

from thinwire.parameters import Param


@dataclass(eq=False)
class Bucket:
    """Parameters whose gradients are sent together, as soon as all of them are complete."""

    params: list[Param]
    """From the output side to the input side."""
    _missing: int = field(init=False)

    def __post_init__(self) -> None:
        self._missing = len(self.params)

    @property
    def gradients(self) -> list[Tensor]:
        """The gradients, in the order of `params`."""
        return [param.grad for param in self.params]

    def arrived(self) -> bool:
        """Count one gradient. If it completes the bucket, return True and start the count again."""
        self._missing -= 1
        if self._missing:
            return False
        self._missing = len(self.params)
        return True


def in_buckets(params: list[Param], cap_mb: float) -> list[Bucket]:
    """Divide the parameters into buckets, from the output side to the input side.

    A tensor that is larger than `cap_mb` gets a bucket of its own.

    Args:
        params: from the input side to the output side.
        cap_mb: the largest size of a bucket in megabytes (2^20 bytes).
    """
    buckets: list[list[Param]] = []
    free_bytes = 0.0
    for param in reversed(params):
        size = param.tensor.numel() * param.tensor.element_size()
        if not buckets or size > free_bytes:
            buckets.append([])
            free_bytes = cap_mb * 2**20
        buckets[-1].append(param)
        free_bytes -= size
    return [Bucket(params) for params in buckets]
