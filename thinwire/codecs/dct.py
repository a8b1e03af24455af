"""Cosine transforms of a tensor's chunks: an orthonormal DCT-II in the rows and columns of each."""

import math

import torch
from torch import Tensor

from thinwire.codecs import chunks


class Chunks(chunks.Chunks):
    """Chunks whose entries are the coefficients of their cosine transform."""

    def __init__(self, like: Tensor, limit: int, most: int) -> None:
        super().__init__(like, limit, most)
        self._left, self._right = _basis(self.height, like), _basis(self.width, like).T

    def encode(self, tensor: Tensor) -> Tensor:
        """Return the coefficients, [chunks, entries of a chunk]."""
        return (self._left @ self._blocks(tensor) @ self._right).reshape(self.count, self.entries)

    def decode(self, rows: Tensor) -> Tensor:
        """Return the tensor that has these coefficients."""
        blocks = rows.view(*self.grid, self.height, self.width)
        return self._tensor(self._left.T @ blocks @ self._right.T)


def _basis(n: int, like: Tensor) -> Tensor:
    """Return the matrix of the orthonormal DCT-II: row u has the cosine of frequency u."""
    places = torch.arange(n, dtype=torch.float64)
    cosines = torch.cos(math.pi / n * places[:, None] * (places + 0.5)) * math.sqrt(2 / n)
    cosines[0] = math.sqrt(1 / n)
    return cosines.to(like.device, like.dtype)
