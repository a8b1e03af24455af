"""Some entries of each tensor as one payload, with their positions: int32, a bitmap, or run lengths.

Positions are counted through all tensors as if they were one row, so one payload holds entries of any number
of tensors.
"""

from itertools import accumulate
from typing import Literal

import torch
from torch import Tensor

from thinwire.codecs.select import Select, count
from thinwire.trace.recorder import DECODE, ENCODE, recorded
from thinwire.traffic.payload import Payload

Encoding = Literal["int32", "bitmap", "run_length"]
# A run length of this value skips as many entries, and no chosen position follows it.
FILLER = 65535


def encode_indices(positions: Tensor, numel: int, encoding: Encoding) -> Tensor:
    """Encode `positions`, int64 in increasing order, of a tensor with `numel` entries; exact.

    Bytes for k positions:

    - `int32`: 4 k
    - `bitmap`: ceil(numel / 8)
    - `run_length`: 2 (k + fillers), with one filler for every 65535 entries of a gap between two positions

    On a GPU only one thing makes the host wait: the number of fillers, if `numel` is large enough for one.
    """
    if encoding == "int32":
        return positions.to(torch.int32)
    if encoding == "bitmap":
        bits = torch.zeros(-(-numel // 8) * 8, dtype=torch.uint8, device=positions.device)
        bits.index_fill_(0, positions, 1)
        return (bits.view(-1, 8) << _places(positions.device)).sum(1, dtype=torch.uint8)
    gaps = positions.diff(prepend=positions.new_full((1,), -1)) - 1
    if numel <= FILLER:  # no gap is long enough for a filler
        return gaps.to(torch.int16)
    fillers = gaps // FILLER
    codes = positions.new_full((positions.numel() + int(fillers.sum()),), FILLER)
    codes[(fillers + 1).cumsum(0) - 1] = gaps % FILLER
    # As int16 with the same bits, because few communication libraries support uint16.
    return codes.to(torch.int16)


def decode_indices(code: Tensor, count: int, encoding: Encoding) -> Tensor:
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


@recorded(ENCODE)
def choose(tensors: list[Tensor], density: float, select: Select, generator: torch.Generator) -> list[Tensor]:
    """Choose the share `density` of the entries of each tensor; return positions in the tensor as a row."""
    rows = [tensor.view(-1) for tensor in tensors]
    return select(rows, [count(density, row.numel()) for row in rows], generator)


@recorded(ENCODE)
def take(tensors: list[Tensor], chosen: list[Tensor], encoding: Encoding) -> Payload:
    """Move the chosen entries into a payload; zeros take their place in the tensors.

    This supports error feedback, because the taken and the remaining entries add up exactly to the original
    ones.
    """
    values = torch.cat([tensor.view(-1)[positions] for tensor, positions in zip(tensors, chosen)])
    erase(tensors, chosen)
    *starts, numel = accumulate((tensor.numel() for tensor in tensors), initial=0)
    through = torch.cat([positions + start for positions, start in zip(chosen, starts)])
    return {"values": values, "indices": encode_indices(through, numel, encoding)}


def varies(selection: str, encoding: Encoding) -> bool:
    """Do sizes depend on the values? A sampled threshold may select fewer, and run lengths need fillers."""
    return selection == "sampled" or encoding == "run_length"


@recorded(ENCODE)
def erase(tensors: list[Tensor], chosen: list[Tensor]) -> None:
    """Set the chosen entries to zero."""
    for tensor, positions in zip(tensors, chosen):
        # An assignment to `tensor[positions]` would copy the zero to a GPU, and the host would wait for it.
        tensor.view(-1).index_fill_(0, positions, 0)


@recorded(DECODE)
def mean(payloads: list[Payload], like: list[Tensor], encoding: Encoding) -> list[Tensor]:
    """Return the mean of the workers' payloads, dense, in the shapes of `like`.

    The payloads are added in the order of the workers. Entries that a worker did not send count as zero.
    """
    sizes = [tensor.numel() for tensor in like]
    total = torch.zeros(sum(sizes), dtype=like[0].dtype, device=like[0].device)
    for payload in payloads:
        values = payload["values"]
        total.index_add_(0, decode_indices(payload["indices"], values.numel(), encoding), values)
    total /= len(payloads)
    return [part.view(t.shape) for part, t in zip(total.split(sizes), like)]
