"""The entries of a long row whose magnitude reaches a threshold, without comparing every one of them.

The row is looked at once, for the largest magnitude in each group of 16 entries; after that a threshold
costs a comparison a group, and one for each entry of the groups that reach it. Comparing is what is slow: on
a CPU it takes several times as long as finding the maxima.
"""

import torch
from torch import Tensor

GROUP = 16
# Groups side by side, so that what is computed of them stays in the processor's cache.
WIDTH = 2**14


class Maxima:
    """The largest magnitudes of a row's groups.

    A block of 16 x width entries is seen as 16 rows, and each of its columns is a group, because maxima are
    quickest to find from row to row.
    """

    def __init__(self, row: Tensor) -> None:
        self.row = row
        width = WIDTH if row.device.type == "cpu" else max(1, row.numel() // GROUP)
        whole = row.numel() // (GROUP * width) * GROUP * width
        rest = (row.numel() - whole) // GROUP
        # The start of each stretch of blocks, their width, and the maxima of all its groups.
        self._stretches = [(0, width, self._largest(0, whole, width))]
        self._stretches.append((whole, rest, self._largest(whole, whole + GROUP * rest, rest)))
        self._last = whole + GROUP * rest  # from here on fewer than 16 entries are left

    def reaching(self, threshold: float) -> Tensor:
        """The positions, rising, of the entries whose magnitude is at least `threshold`."""
        candidates = [torch.arange(self._last, self.row.numel(), device=self.row.device)]
        for start, width, largest in self._stretches:
            groups = (largest >= threshold).nonzero().view(-1)
            if width:
                first = start + groups // width * (GROUP * width) + groups % width
                members = torch.arange(GROUP, device=self.row.device) * width
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
