"""Small whole numbers in few bits each: levels of a quantisation, positions in a short row.

The numbers follow each other without a gap, each with its lowest bit first; so do the bits of a byte. Only
the last byte is padded, with zeros: n numbers of b bits take ceil(n b / 8) bytes.
"""

import torch
from torch import Tensor
from torch.nn import functional

from thinwire.trace.recorder import DECODE, ENCODE, recorded


def width(count: int) -> int:
    """Return how many bits tell `count` numbers from each other, beginning with 0."""
    return (count - 1).bit_length()


@recorded(ENCODE)
def pack(numbers: Tensor, bits: int) -> Tensor:
    """Return the bytes (uint8) of whole numbers from 0 to 2^bits - 1, of any integer type and shape."""
    row = (numbers.reshape(-1, 1) >> _places(bits, numbers) & 1).to(torch.uint8).flatten()
    row = functional.pad(row, (0, -len(row) % 8))
    return (row.view(len(row) // 8, 8) << _places(8, row)).sum(1, dtype=torch.uint8)


@recorded(DECODE)
def unpack(packed: Tensor, count: int, bits: int) -> Tensor:
    """Return the `count` numbers, int64 and flat, that `pack` has put into these bytes."""
    row = (packed[:, None] >> _places(8, packed) & 1).flatten()[: count * bits]
    numbers = row.view(count, bits).to(torch.int64)
    return (numbers << _places(bits, numbers)).sum(1)


def _places(count: int, like: Tensor) -> Tensor:
    return torch.arange(count, dtype=like.dtype, device=like.device)
