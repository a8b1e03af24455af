"""Whole tensors in few bits an entry, with a scale for each block of entries.

`Rounded` rounds to levels:

    s = the largest |x| of the block / m, with m = 2^(width - 1) - 1;  a level is round(x / s), from -m to m

Halves are rounded to the even neighbour. An entry is changed by at most s / 2. In a block of zeros s is 0.

`Signs` sends a bit: x becomes s or -s, where s is the mean of |x| in the block, or its root mean square. Zero
counts as positive.

`RandomLevels` rounds |x| / s to one of the two nearest levels at random, so that x is right on average.
"""

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from thinwire.base.placement import moved_to
from thinwire.codecs import bits
from thinwire.trace.recorder import DECODE, ENCODE, recorded
from thinwire.traffic.payload import Payload


@recorded(ENCODE)
def quantise(row: Tensor, width: int, block: int) -> Payload:
    """Return the levels and scales of a row.

    Bytes for n entries in float32: ceil(n width / 8) for the levels, 4 ceil(n / block) for the scales.

    Args:
        row: flat, of any length; the last block may be shorter.
        width: bits of a level, at least 2.
        block: entries of a block.
    """
    largest = 2 ** (width - 1) - 1
    blocks = _blocks(row, block)
    scales = blocks.abs().amax(1) / largest
    # A block of zeros, or of numbers so small that the scale is zero, becomes zeros.
    levels = (blocks / torch.where(scales == 0, 1, scales)[:, None]).round()
    # Levels are packed as numbers from 0.
    shifted = (levels.flatten()[: len(row)] + largest).to(torch.int64)
    return {"values": bits.pack(shifted, width), "scales": scales}


@recorded(DECODE)
def dequantise(payload: Payload, count: int, width: int, block: int) -> Tensor:
    """Return the row of `count` entries that the payload stands for, in the type of its scales."""
    levels = bits.unpack(payload["values"], count, width) - (2 ** (width - 1) - 1)
    return _scaled(levels, payload["scales"], block)


def _blocks(row: Tensor, block: int) -> Tensor:
    """Return [blocks, block], with zeros behind the row."""
    return functional.pad(row, (0, -len(row) % block)).view(-(-len(row) // block), block)


def _length(block: int | None, count: int) -> int:
    """Return how many entries of a row with `count` entries form a block."""
    return block or max(1, count)


def _scaled(row: Tensor, scales: Tensor, block: int) -> Tensor:
    """Return the row with each block multiplied by its scale."""
    return (_blocks(row, block) * scales[:, None]).flatten()[: len(row)]


@dataclass(frozen=True)
class Rounded:
    """The codec of `quantise` and `dequantise`, for `thinwire.codecs.lossy`."""

    width: int
    """Bits of a level, at least 2."""
    block: int
    """Entries of a block."""

    def encode(self, rows: list[Tensor]) -> list[Payload]:
        """Return the levels and scales of each row."""
        return [quantise(row, self.width, self.block) for row in rows]

    def decode(self, payload: Payload, count: int) -> Tensor:
        """Return the row of `count` entries that the payload stands for."""
        return dequantise(payload, count, self.width, self.block)

    def sizes(self, count: int) -> dict[str, int]:
        """Return how many bytes of levels, and how many scales, stand for a row of `count` entries."""
        return {"values": -(-count * self.width // 8), "scales": -(-count // self.block)}


@dataclass(frozen=True)
class Signs:
    """The codec of signs with scales, for `thinwire.codecs.lossy`.

    Bytes for n entries in float32: ceil(n / 8) for the signs, 4 ceil(n / block) for the scales.
    """

    block: int | None = None
    """Entries of a block; None: each row is one block."""
    norm: Literal["l1", "l2"] = "l1"
    """The scale of a block: the mean of |x|, or the root of the mean of x^2. It keeps the sum of these."""

    def encode(self, rows: list[Tensor]) -> list[Payload]:
        """Return the signs and scales of each row."""
        return [{"values": signs(row), "scales": self._scales(row)} for row in rows]

    @recorded(ENCODE)
    def _scales(self, row: Tensor) -> Tensor:
        block = _length(self.block, len(row))
        sums = _blocks(row.abs() if self.norm == "l1" else row.square(), block).sum(1)
        entries = torch.full_like(sums, block)
        entries[-1:] = len(row) - block * (len(sums) - 1)  # the last block may be shorter
        means = sums / entries
        return means if self.norm == "l1" else means.sqrt()

    @recorded(DECODE)
    def decode(self, payload: Payload, count: int) -> Tensor:
        """Return the row of `count` entries that the payload stands for, in the type of its scales."""
        return _scaled(from_signs(payload["values"], count), payload["scales"], _length(self.block, count))

    def sizes(self, count: int) -> dict[str, int]:
        """Return how many bytes of signs, and how many scales, stand for a row of `count` entries."""
        return {"values": -(-count // 8), "scales": -(-count // _length(self.block, count))}


@recorded(ENCODE)
def signs(row: Tensor) -> Tensor:
    """Return the bytes (uint8) with a bit for each entry of a row; zero counts as positive."""
    return bits.pack((row >= 0).to(torch.uint8), 1)


@recorded(DECODE)
def from_signs(packed: Tensor, count: int) -> Tensor:
    """Return the `count` signs, 1 or -1, int64 and flat, that `signs` has put into these bytes."""
    return bits.unpack(packed, count, 1) * 2 - 1


@dataclass(frozen=True)
class RandomLevels:
    """The codec of random rounding, for `thinwire.codecs.lossy`.

        x becomes s sign(x) l, where l is one of the two levels around |x| / s;  the mean of s sign(x) l is x

    There are m + 1 levels from 0 to 1, with m = 2^(width - 1) - 1. Bytes for n entries in float32: ceil(n
    width / 8) for levels and signs, 4 ceil(n / block) for the scales.
    """

    width: int
    """Bits of a level and its sign, at least 2."""
    block: int | None
    """Entries of a block; None: each row is one block."""
    norm: Literal["l2", "max"]
    """The scale s of a block: its Euclidean norm, or its largest |x|. In a block of zeros it is 0."""
    levels: Literal["uniform", "exponential"]
    """Multiples of 1 / m; or 0, 2^(1 - m), ..., 1/4, 1/2, 1."""
    generator: torch.Generator
    """Random numbers, on the CPU."""

    @recorded(ENCODE)
    def encode(self, rows: list[Tensor]) -> list[Payload]:
        """Return levels, signs and scales of each row."""
        return [self._encode(row) for row in rows]

    def _encode(self, row: Tensor) -> Payload:
        blocks = _blocks(row, _length(self.block, len(row)))
        scales = blocks.norm(dim=1) if self.norm == "l2" else blocks.abs().amax(1)
        shares = (blocks.abs() / torch.where(scales == 0, 1, scales)[:, None]).flatten()[: len(row)]
        levels = self._levels(row)
        below = (torch.searchsorted(levels, shares, right=True) - 1).clamp_max(len(levels) - 2)
        rest = (shares - levels[below]) / (levels[below + 1] - levels[below])
        numbers = (below + (self._draw(row) < rest)) * torch.where(row < 0, -1, 1)
        # Packed as numbers from 0.
        return {"values": bits.pack(numbers + len(levels) - 1, self.width), "scales": scales}

    def _levels(self, like: Tensor) -> Tensor:
        largest = 2 ** (self.width - 1) - 1
        numbers = torch.arange(largest + 1, dtype=like.dtype, device=like.device)
        if self.levels == "uniform":
            return numbers / largest
        return torch.where(numbers == 0, 0, 2 ** (numbers - largest))

    def _draw(self, row: Tensor) -> Tensor:
        """Return a number from 0 to 1 for each entry."""
        return moved_to(row.device, torch.rand(len(row), generator=self.generator, dtype=row.dtype))

    @recorded(DECODE)
    def decode(self, payload: Payload, count: int) -> Tensor:
        """Return the row of `count` entries that the payload stands for, in the type of its scales."""
        levels = self._levels(payload["scales"])
        numbers = bits.unpack(payload["values"], count, self.width) - (len(levels) - 1)
        return _scaled(levels[numbers.abs()] * numbers.sign(), payload["scales"], _length(self.block, count))

    def sizes(self, count: int) -> dict[str, int]:
        """Return how many bytes of levels, and how many scales, stand for a row of `count` entries."""
        return {"values": -(-count * self.width // 8), "scales": -(-count // _length(self.block, count))}
