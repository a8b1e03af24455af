"""Which entries of a tensor travel: the largest, roughly the largest, or random ones.

Each function takes a tensor as one row and gives the positions of at most `k` entries, rising.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

# The sample: this share of the entries, and enough that it holds this many of the `k` largest, and not
# fewer than this. A tensor that is no larger than that is looked at whole.
SAMPLED_SHARE, LARGEST_IN_SAMPLE, SMALLEST_SAMPLE = 0.01, 2, 1000
# Where fewer than this share of `k` entries lie above the threshold, it is lowered by this factor.
FEWEST = 0.8
ADJUSTMENTS = 10
# Entries looked at together, so that what is computed of them stays in the processor's cache.
BLOCK = 2**17

Select = Callable[[Tensor, int, torch.Generator], Tensor]


def count(density: float, numel: int) -> int:
    """How many of `numel` entries travel: their share `density`, rounded up, at least one."""
    # Rounded first: 0.07 * 100 is a little more than 7 in binary, and is meant to be 7.
    return max(1, math.ceil(round(density * numel, 6)))


def exact(row: Tensor, k: int, generator: torch.Generator | None = None) -> Tensor:
    """The `k` entries of largest magnitude."""
    return row.abs().topk(k, sorted=False).indices.sort().values


def sampled(row: Tensor, k: int, generator: torch.Generator) -> Tensor:
    """The entries above a threshold that is estimated from a sample, of them at most the `k` largest.

    The sample is strided from a random start. As in the code of Deep Gradient Compression (Lin et al., arXiv
    1712.01887), but for the last cut, which there keeps the first `k` in the order of their positions. Zeros
    never travel.
    """
    numel = row.numel()
    wanted = max(SAMPLED_SHARE * numel, LARGEST_IN_SAMPLE * numel / k, SMALLEST_SAMPLE)
    if wanted >= numel or k == numel:
        return exact(row, k)
    stride = int(numel / wanted)
    start = int(torch.randint(stride, (1,), generator=generator))
    sample = row[start::stride].abs()
    threshold = sample.topk(math.ceil(k / numel * sample.numel()), sorted=False).values.min().item()
    smallest = torch.finfo(row.dtype).tiny
    for _ in range(ADJUSTMENTS):
        found = _above(row, max(threshold, smallest))
        if found.numel() >= FEWEST * k or threshold <= smallest:
            break
        threshold *= FEWEST
    if found.numel() <= k:
        return found
    return found[exact(row[found], k)]


def random(row: Tensor, k: int, generator: torch.Generator) -> Tensor:
    """`k` entries drawn without looking at them, every set of them as likely as any other."""
    chosen = torch.randperm(row.numel(), generator=generator)[:k].sort().values
    return chosen.to(row.device)


def _above(row: Tensor, threshold: float) -> Tensor:
    """The positions of the entries whose magnitude is at least `threshold`."""
    block = BLOCK if row.device.type == "cpu" else row.numel()
    starts = range(0, row.numel(), block)
    return torch.cat([(row[s : s + block].abs() >= threshold).nonzero().view(-1) + s for s in starts])


SELECT: dict[str, Select] = {"exact": exact, "sampled": sampled, "random": random}
