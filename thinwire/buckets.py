"""Buckets: parameters whose gradients travel together, and the order in which they do."""

from dataclasses import dataclass, field

from torch import Tensor

from thinwire.parameters import Param


@dataclass(eq=False)
class Bucket:
    """Parameters whose gradients travel together, as soon as all of them are there."""

    params: list[Param]
    _missing: int = field(init=False)

    def __post_init__(self) -> None:
        self._missing = len(self.params)

    @property
    def gradients(self) -> list[Tensor]:
        return [param.grad for param in self.params]

    def arrived(self) -> bool:
        """Count one gradient; True for the one that completes the bucket, which then starts again."""
        self._missing -= 1
        if self._missing:
            return False
        self._missing = len(self.params)
        return True


def in_buckets(params: list[Param], cap_mb: float) -> list[Bucket]:
    """The parameters in buckets of at most `cap_mb` megabytes (2^20 bytes), output side first.

    A tensor larger than that has a bucket of its own.

    Args:
        params: from the input side to the output side.
        cap_mb: of a bucket.
    """
    buckets: list[list[Param]] = []
    room = 0.0
    for param in reversed(params):
        size = param.tensor.numel() * param.tensor.element_size()
        if not buckets or size > room:
            buckets.append([])
            room = cap_mb * 2**20
        buckets[-1].append(param)
        room -= size
    return [Bucket(params) for params in buckets]
