"""Find the entries of a long row whose magnitude reaches a threshold, without comparing each of them.

First the largest magnitude in each group of 16 entries is computed. Then a threshold needs one comparison for
each group, and one for each entry in the groups that reach it. Comparisons are the slow part: on a CPU they
take several times as long as the maxima.

For CPUs only: on a GPU, each search would make the host wait.
"""

import torch
from torch import Tensor

GROUP = 16
# How many groups are processed together, so that intermediate results stay in the processor's cache.
WIDTH = 2**14


class Maxima:
    """The largest magnitudes of a row's groups.

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
