"""Encodings of positions: int32, a bitmap, or 16-bit run lengths.

All encodings are exact. The positions must be in increasing order and below `numel`. Bytes for k positions:

- `int32`: 4 k
- `bitmap`: ceil(numel / 8)
- `run_length`: 2 (k + fillers), with one filler for every 65535 entries of a gap between two positions

On a GPU only one thing makes the host wait: the number of fillers, if `numel` is large enough for one.
"""

from typing import Literal

import torch
from torch import Tensor

Encoding = Literal["int32", "bitmap", "run_length"]
# A run length of this value skips as many entries, and no chosen position follows it.
FILLER = 65535


def encode(positions: Tensor, numel: int, encoding: Encoding) -> Tensor:
    """Encode `positions`, int64 in increasing order, of a tensor with `numel` entries."""
    if encoding == "int32":
        return positions.to(torch.int32)
    if encoding == "bitmap":
        bits = torch.zeros(-(-numel // 8) * 8, dtype=torch.uint8, device=positions.device)
        bits[positions] = 1
        return (bits.view(-1, 8) << _places(positions.device)).sum(1, dtype=torch.uint8)
    gaps = positions.diff(prepend=positions.new_full((1,), -1)) - 1
    if numel <= FILLER:  # no gap is long enough for a filler
        return gaps.to(torch.int16)
    fillers = gaps // FILLER
    codes = positions.new_full((positions.numel() + int(fillers.sum()),), FILLER)
    codes[(fillers + 1).cumsum(0) - 1] = gaps % FILLER
    # As int16 with the same bits, because few communication libraries support uint16.
    return codes.to(torch.int16)


def decode(code: Tensor, count: int, encoding: Encoding) -> Tensor:
    """Return the encoded positions, int64; `count` is their number, which every payload's values tell."""
    if encoding == "int32":
        return code.to(torch.int64)
    if encoding == "bitmap":
        bits = code[:, None] & 1 << _places(code.device)
        return bits.view(-1).nonzero_static(size=count).view(-1)
    runs = code.to(torch.int64) & 0xFFFF
    followed = runs != FILLER
    positions = (runs + followed).cumsum(0) - 1
    if len(code) == count:  # there are no fillers
        return positions
    return positions[followed.nonzero_static(size=count).view(-1)]


def _places(device: torch.device) -> Tensor:
    return torch.arange(8, dtype=torch.uint8, device=device)
