"""Two bits an entry: plus, minus or nothing of one threshold, laid out as MXNet's gradient compression does.

Four codes a byte, the first in the two highest bits: 11 is plus, 10 minus, 00 nothing. Bytes come in words of
four, so n entries take 4 ceil(n / 16) bytes. (apache/mxnet, src/kvstore/gradient_compression-inl.h.)
"""

import torch
from torch import Tensor

_SHIFTS = (6, 4, 2, 0)


def quantise(values: Tensor, threshold: Tensor) -> Tensor:
    """1, -1 or 0 (int8) for entries at or above the threshold, at or below its negative, and between.

    A threshold of zero gives zeros only.
    """
    codes = (values >= threshold).to(torch.int8) - (values <= -threshold).to(torch.int8)
    return codes * (threshold > 0)


def pack(codes: Tensor) -> Tensor:
    """The bytes (uint8) of codes 1, -1 and 0."""
    flat = codes.flatten()
    padded = torch.zeros(-(-flat.numel() // 16) * 16, dtype=torch.uint8, device=codes.device)
    padded[: flat.numel()] = torch.where(flat > 0, 3, torch.where(flat < 0, 2, 0)).to(torch.uint8)
    shifts = torch.tensor(_SHIFTS, dtype=torch.uint8, device=codes.device)
    return (padded.view(-1, 4) << shifts).sum(1, dtype=torch.uint8)


def unpack(packed: Tensor, numel: int) -> Tensor:
    """The codes 1, -1 and 0 (int8) of `numel` entries; the code 01 is nothing, too."""
    shifts = torch.tensor(_SHIFTS, dtype=torch.uint8, device=packed.device)
    bits = (packed[:, None] >> shifts & 3).view(-1)[:numel]
    return (bits == 3).to(torch.int8) - (bits == 2).to(torch.int8)
