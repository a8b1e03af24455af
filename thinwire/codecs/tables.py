"""Values as numbers in few bits, with a table of the mean value behind each number.

    s = 6 sigma / 2^b;  a number is round((x - mean) / s) + 2^(b - 1), and at least 0 and at most 2^b - 1

Source: the compressor of Templar (tplr-ai/templar, `src/tplr/compress.py`), in which the numbers are called
bins, and sigma is the standard deviation of a sample. There the table has the differences to the mean, which
is sent beside it; here it has their sums.
"""

import torch
from torch import Tensor

from thinwire.trace.recorder import ENCODE, recorded

# The standard deviations that all bins together are wide.
RANGE = 6


@recorded(ENCODE)
def quantise(values: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Return the number of each value, int64, and the table with 2^width values; `table[numbers]` decodes.

    Args:
        values: flat, at least one. If all are equal, or there is only one, the result is exact.
        width: bits of a number, at least 1. A table is found with 2^width comparisons for each value.
    """
    bins = 2**width
    mean = values.mean()
    centred = values - mean
    scale = RANGE / bins * centred.norm() / max(1, len(values) - 1) ** 0.5
    scale = torch.where(scale > 0, scale, 1)
    numbers = (centred / scale + bins // 2).round().clamp(0, bins - 1).to(torch.int64)
    # Sums over rows and not by scattering, which adds in any order on a GPU.
    members = numbers == torch.arange(bins, device=values.device)[:, None]
    sums = torch.where(members, centred, 0).sum(1)
    return numbers, mean + sums / members.sum(1).clamp_min(1)
