"""16-bit floats: half the bytes of single precision, and 8 (bfloat16) or 11 (float16) bits of mantissa."""

from typing import Literal

import torch
from torch import Tensor

from thinwire.trace.recorder import ENCODE, recorded

Precision = Literal["full", "bfloat16", "float16"]
_DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}


@recorded(ENCODE)
def cast(tensors: list[Tensor], precision: Precision) -> list[Tensor]:
    """Return copies in this precision; for `full`, return the tensors themselves."""
    if precision == "full":
        return tensors
    return [tensor.to(_DTYPES[precision]) for tensor in tensors]
