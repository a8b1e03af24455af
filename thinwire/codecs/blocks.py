"""Whole tensors as small whole numbers, with a scale for each block of entries.

    s = the largest |x| of the block / m, with m = 2^(width - 1) - 1;  a level is round(x / s), from -m to m

Halves are rounded to the even neighbour. An entry is changed by at most s / 2. In a block of zeros s is 0.
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
    blocks = functional.pad(row, (0, -len(row) % block)).view(-(-len(row) // block), block)
    scales = blocks.abs().amax(1) / largest
    # A block of zeros, or of numbers so small that the scale is zero, becomes zeros.
    levels = (blocks / torch.where(scales == 0, 1, scales)[:, None]).round()
    # Levels are packed as numbers from 0.
    shifted = (levels.flatten()[: len(row)] + largest).to(torch.int64)
    return {"values": bits.pack(shifted, width), "scales": scales}


@recorded(DECODE)
def dequantise(payload: Payload, count: int, width: int, block: int) -> Tensor:
    """Return the row of `count` entries that the payload stands for, in the type of its scales."""
    scales = payload["scales"]
    levels = bits.unpack(payload["values"], count, width) - (2 ** (width - 1) - 1)
    blocks = functional.pad(levels, (0, -count % block)).view(len(scales), block)
    return (blocks * scales[:, None]).flatten()[:count]


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
