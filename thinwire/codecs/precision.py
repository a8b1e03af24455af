"""Whole tensors in fewer bits: bfloat16 and float16, or two bits an entry.

Two bits stand for plus one threshold, minus one threshold, or zero. Their layout is that of MXNet's gradient
compression (apache/mxnet, src/kvstore/gradient_compression-inl.h). Each byte holds four codes, the first one
in the two highest bits: 11 is plus, 10 is minus, 00 is zero. Bytes are padded to words of four, so n entries
take 4 ceil(n / 16) bytes.
"""

from typing import Literal

import torch
from torch import Tensor

from thinwire.trace.recorder import DECODE, ENCODE, recorded

Precision = Literal["full", "bfloat16", "float16"]
_DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}


@recorded(ENCODE)
def cast(tensors: list[Tensor], precision: Precision) -> list[Tensor]:
    """Return copies in this precision; for `full`, return the tensors themselves."""
    if precision == "full":
        return tensors
    return [tensor.to(_DTYPES[precision]) for tensor in tensors]


@recorded(ENCODE)
def quantise(values: Tensor, threshold: Tensor) -> Tensor:
    """Return a code (int8) for each entry, of the shape of `values`.

    The code is 1 at or above the threshold, -1 at or below its negative, and 0 between them. If the threshold
    is zero, all codes are 0.
    """
    codes = (values >= threshold).to(torch.int8) - (values <= -threshold).to(torch.int8)
    return codes * (threshold > 0)


@recorded(ENCODE)
def pack(codes: Tensor) -> Tensor:
    """Return the bytes (uint8) of the codes 1, -1 and 0."""
    flat = codes.flatten()
    padded = torch.zeros(-(-flat.numel() // 16) * 16, dtype=torch.uint8, device=codes.device)
    padded[: flat.numel()] = torch.where(flat > 0, 3, torch.where(flat < 0, 2, 0)).to(torch.uint8)
    return (padded.view(-1, 4) << _shifts(codes.device)).sum(1, dtype=torch.uint8)


@recorded(DECODE)
def unpack(packed: Tensor, numel: int) -> Tensor:
    """Return the codes 1, -1 and 0 (int8) of `numel` entries; the unused bit pattern 01 also gives 0."""
    bits = (packed[:, None] >> _shifts(packed.device) & 3).view(-1)[:numel]
    return (bits == 3).to(torch.int8) - (bits == 2).to(torch.int8)


def _shifts(device: torch.device) -> Tensor:
    return torch.arange(6, -1, -2, dtype=torch.uint8, device=device)
