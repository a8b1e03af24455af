"""Which entries are sent: the largest, nearly the largest, or random ones.

Each function takes tensors as rows, with a number `k` for each row. It returns the positions of at most `k`
entries of each row, in increasing order. The host waits for a GPU at most once for all rows, where the
numbers of entries depend on the values. On CPUs, long rows are searched in another way (`Maxima`).
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor

from thinwire.base.placement import counted_as_accelerator, moved_to

GROUP = 16
# How many groups are processed together, so that intermediate results stay in the processor's cache.
WIDTH = 2**14


class Maxima:
    """The largest magnitudes of a row's groups, which find the entries above a threshold in few comparisons.

    First the largest magnitude in each group of 16 entries is computed. Then a threshold needs one comparison
    for each group, and one for each entry in the groups that reach it. Comparisons are the slow part: on a
    CPU they take several times as long as the maxima. On a GPU, each search would make the host wait.

    A block of 16 x width entries is viewed as 16 rows. Each of its columns is a group, because maxima over
    rows are the fastest.
    """

    def __init__(self, row: Tensor) -> None:
        self.row = row
        whole = row.numel() // (GROUP * WIDTH) * GROUP * WIDTH
        rest = (row.numel() - whole) // GROUP
        # Sections of equal blocks: start of the section, width of its blocks, maxima of all its groups.
        self._sections = [(0, WIDTH, self._largest(0, whole, WIDTH))]
        self._sections.append((whole, rest, self._largest(whole, whole + GROUP * rest, rest)))
        self._last = whole + GROUP * rest  # here the last entries begin, fewer than 16

    def reaching(self, threshold: float) -> Tensor:
        """Return the positions of entries with a magnitude of at least `threshold`, in increasing order."""
        candidates = [torch.arange(self._last, self.row.numel())]
        for start, width, largest in self._sections:
            groups = (largest >= threshold).nonzero().view(-1)
            if width:
                first = start + groups // width * (GROUP * width) + groups % width
                members = torch.arange(GROUP) * width
                candidates.append((first[:, None] + members).view(-1))
        positions = torch.cat(candidates)
        return positions[self.row.index_select(0, positions).abs() >= threshold].sort().values

    def _largest(self, start: int, end: int, width: int) -> Tensor:
        if start == end:
            return self.row[:0]
        blocks = [
            self.row[s : s + GROUP * width].view(GROUP, width) for s in range(start, end, GROUP * width)
        ]
        return torch.cat([torch.maximum(block.amax(0), -block.amin(0)) for block in blocks])


# A sample contains at least this share of the entries, and never fewer entries than the last number. It is
# also so large that it is expected to contain this many of the `k` largest entries.
SAMPLED_SHARE, LARGEST_IN_SAMPLE, SMALLEST_SAMPLE = 0.01, 2, 1000
# If fewer than this share of `k` entries reach the threshold, the threshold is multiplied by the same number.
FEWEST = 0.8
ADJUSTMENTS = 10
# For a larger share of the entries and for shorter rows, topk alone is faster than a search for candidates.
MOST_CANDIDATES, SHORTEST = 0.02, 50_000

Select = Callable[[list[Tensor], list[int], torch.Generator], list[Tensor]]


def count(density: float, numel: int) -> int:
    """Return how many of `numel` entries are sent: the share `density`, rounded up, at least one."""
    # Rounded first: 0.07 * 100 is slightly more than 7 in binary, but 7 is meant.
    return max(1, math.ceil(round(density * numel, 6)))


def exact(rows: list[Tensor], ks: list[int], generator: torch.Generator | None = None) -> list[Tensor]:
    """Select the `k` entries of largest magnitude of each row.

    In a long row on a CPU, a sample gives a threshold, and only the entries that reach it are searched. If
    fewer than `k` entries reach it, all are searched. Both searches find the same magnitudes. Among entries
    of equal magnitude `torch.topk` decides, so the two may find different positions.
    """
    return [_exact(row, k) for row, k in zip(rows, ks)]


def _exact(row: Tensor, k: int) -> Tensor:
    if _is_searched_on_host(row) and k <= MOST_CANDIDATES * row.numel():
        sample = row[:: _stride(row.numel(), k)].abs()
        expected = k / row.numel() * sample.numel()
        rank = min(sample.numel(), math.ceil(expected + 3 * math.sqrt(expected)) + 1)
        candidates = Maxima(row).reaching(_rank(sample, rank).item())
        if candidates.numel() >= k:
            return candidates[_largest(row[candidates], k)]
    return _largest(row, k)


def sampled(rows: list[Tensor], ks: list[int], generator: torch.Generator) -> list[Tensor]:
    """Select the entries that reach a threshold from a sample; at most the `k` largest of each row.

    At least 0.8 `k` entries are selected if so many are not zero. For this the threshold is lowered
    repeatedly. If the last attempt still gives too few, all nonzero entries are candidates. Zeros are never
    selected, except when `k` is the whole row. In short rows the selection is exact.

    As in the code of Deep Gradient Compression (Lin et al., arXiv 1712.01887), the sample is strided, with a
    random start. That code differs in three points. Its stride is odd; here it is coprime to the number of
    entries. Of at most 1.3 `k` candidates it keeps the first `k` by position, not the largest. It never
    considers all entries.
    """
    found = [_sampled(row, k, generator) for row, k in zip(rows, ks)]
    unknown = [reaching for _, reaching in found if reaching is not None]
    # Here the host waits for a GPU, once for all rows.
    counts = iter(torch.stack(unknown).tolist() if unknown else [])
    return [positions if reaching is None else positions[: next(counts)] for positions, reaching in found]


def _sampled(row: Tensor, k: int, generator: torch.Generator) -> tuple[Tensor, Tensor | None]:
    """Return positions, and how many of the first ones are selected: a scalar, or None for all of them."""
    numel = row.numel()
    if k == numel:
        return _largest(row, k), None
    if _sample_size(numel, k) >= numel or numel < SHORTEST:
        largest = row.abs().topk(k, sorted=False)
        return _first_ones(largest.indices, largest.values != 0, numel)
    stride = _stride(numel, k)
    start = int(torch.randint(stride, (1,), generator=generator))
    sample = row[start::stride].abs()
    threshold = _rank(sample, math.ceil(k / numel * sample.numel()))
    if _is_searched_on_host(row):
        return _reaching_on_host(row, k, threshold.item()), None
    return _reaching(row, k, threshold)


def _reaching(row: Tensor, k: int, threshold: Tensor) -> tuple[Tensor, Tensor]:
    """As `_reaching_on_host`, in the form of `_sampled`. The host waits for nothing.

    Only the `k` largest entries are compared with the thresholds, because no others can be selected.
    """
    smallest = torch.finfo(row.dtype).tiny
    largest = row.abs().topk(k, sorted=False)
    lowered = FEWEST ** torch.arange(ADJUSTMENTS, dtype=torch.float64, device=row.device)
    thresholds = (threshold.double() * lowered).to(row.dtype).clamp(min=smallest)
    enough = (largest.values[:, None] >= thresholds).sum(0) >= FEWEST * k
    highest = torch.where(enough, thresholds, smallest).max()
    return _first_ones(largest.indices, largest.values >= highest, row.numel())


def _first_ones(positions: Tensor, selected: Tensor, numel: int) -> tuple[Tensor, Tensor]:
    """Return the selected positions in increasing order, then the number `numel` for others; and how many."""
    return positions.masked_fill(~selected, numel).sort().values, selected.count_nonzero()


def _reaching_on_host(row: Tensor, k: int, threshold: float) -> Tensor:
    """Return at most the `k` largest of the entries that reach the threshold, which is lowered as needed."""
    smallest = torch.finfo(row.dtype).tiny
    maxima = Maxima(row)
    for _ in range(ADJUSTMENTS):
        found = maxima.reaching(max(threshold, smallest))
        if found.numel() >= FEWEST * k or threshold <= smallest:
            break
        threshold *= FEWEST
    else:
        found = maxima.reaching(smallest)
    return found if found.numel() <= k else found[_largest(row[found], k)]


def random(rows: list[Tensor], ks: list[int], generator: torch.Generator) -> list[Tensor]:
    """Select `k` entries of each row at random, whatever their values are; all sets are equally likely."""
    drawn = [torch.randperm(row.numel(), generator=generator)[:k].sort().values for row, k in zip(rows, ks)]
    return [moved_to(row.device, positions) for row, positions in zip(rows, drawn)]


def _is_searched_on_host(row: Tensor) -> bool:
    return row.numel() >= SHORTEST and row.device.type == "cpu" and not counted_as_accelerator.get()


def _sample_size(numel: int, k: int) -> float:
    return max(SAMPLED_SHARE * numel, LARGEST_IN_SAMPLE * numel / k, SMALLEST_SAMPLE)


def _stride(numel: int, k: int) -> int:
    """Return the distance between two entries of the sample; it is coprime to `numel`.

    The length of a matrix's rows divides `numel`. A stride with a divisor in common with that length would
    sample only some of the columns. A coprime stride samples all columns equally often.
    """
    stride = max(1, int(numel / _sample_size(numel, k)))
    while math.gcd(stride, numel) > 1:
        stride -= 1
    return stride


def _rank(magnitudes: Tensor, rank: int) -> Tensor:
    """Return the magnitude of this rank, a scalar; rank 1 is the largest."""
    return magnitudes.topk(rank, sorted=False).values.min()


def _largest(row: Tensor, k: int) -> Tensor:
    """Return the positions of the `k` largest magnitudes, in increasing order."""
    return row.abs().topk(k, sorted=False).indices.sort().values


SELECT: dict[str, Select] = {"exact": exact, "sampled": sampled, "random": random}
