"""Some rows of a tensor, without a copy of them."""

import torch
from torch import Tensor


class Rows:
    """Some rows of a tensor; an index takes from these rows only."""

    def __init__(self, whole: "Images", rows: Tensor) -> None:
        self._whole, self._rows = whole, rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, chosen: Tensor | slice) -> Tensor:
        return self._whole[self._rows[chosen]]

    def to(self, device: torch.device) -> "Rows":
        """The same rows of the whole tensor on a device."""
        return Rows(self._whole.to(device), self._rows.to(device))


Images = Tensor | Rows
