"""Whole tensors in few bits an entry, with a scale for each block of entries.

`Rounded` rounds to levels:

    s = the largest |x| of the block / m, with m = 2^(width - 1) - 1;  a level is round(x / s), from -m to m

Halves are rounded to the even neighbour. An entry is changed by at most s / 2. In a block of zeros s is 0.

`Signs` sends a bit: x becomes s or -s, where s is the mean of |x| in the block. Zero counts as positive.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

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

    def encode(self, rows: list[Tensor]) -> list[Payload]:
        """Return the signs and scales of each row."""
        return [{"values": signs(row), "scales": self._scales(row)} for row in rows]

    @recorded(ENCODE)
    def _scales(self, row: Tensor) -> Tensor:
        block = self._block(len(row))
        sums = _blocks(row.abs(), block).sum(1)
        entries = torch.full_like(sums, block)
        entries[-1:] = len(row) - block * (len(sums) - 1)  # the last block may be shorter
        return sums / entries

    @recorded(DECODE)
    def decode(self, payload: Payload, count: int) -> Tensor:
        """Return the row of `count` entries that the payload stands for, in the type of its scales."""
        return _scaled(from_signs(payload["values"], count), payload["scales"], self._block(count))

    def sizes(self, count: int) -> dict[str, int]:
        """Return how many bytes of signs, and how many scales, stand for a row of `count` entries."""
        return {"values": -(-count // 8), "scales": -(-count // self._block(count))}

    def _block(self, count: int) -> int:
        return self.block or max(1, count)


@recorded(ENCODE)
def signs(row: Tensor) -> Tensor:
    """Return the bytes (uint8) with a bit for each entry of a row; zero counts as positive."""
    return bits.pack((row >= 0).to(torch.uint8), 1)


@recorded(DECODE)
def from_signs(packed: Tensor, count: int) -> Tensor:
    """Return the `count` signs, 1 or -1, int64 and flat, that `signs` has put into these bytes."""
    return bits.unpack(packed, count, 1) * 2 - 1
