"""The largest coefficients of the cosine transforms of a tensor's chunks, with their positions.

A tensor is taken as the matrix [C_out, all others], or as one row if it has fewer than two dimensions. The
matrix is divided into equal chunks, and each chunk is transformed by an orthonormal DCT-II in its rows and
columns. Each side of a chunk divides that of the matrix: it is the largest divisor up to a limit.
"""

import math

import torch
from torch import Tensor

from thinwire.codecs import bits
from thinwire.trace.recorder import DECODE, ENCODE, recorded
from thinwire.traffic.payload import Payload


class Chunks:
    """The chunks of tensors with the shape, type and device of `like`.

    Args:
        like: a tensor of any shape with at least one entry.
        limit: the longest side of a chunk, in entries.
        most: how many coefficients of each chunk are sent; all of them in smaller chunks.
    """

    def __init__(self, like: Tensor, limit: int, most: int) -> None:
        rows = len(like) if like.dim() > 1 else 1
        columns = like.numel() // rows
        self.shape = like.shape
        self.height, self.width = _divisor(rows, limit), _divisor(columns, limit)
        self.grid = rows // self.height, columns // self.width
        self.count, self.entries = math.prod(self.grid), self.height * self.width
        self.k = min(most, self.entries)
        # Where all coefficients are sent, their positions need not be told.
        self.bits = bits.width(self.entries) if self.k < self.entries else 0
        self._left, self._right = _basis(self.height, like), _basis(self.width, like).T

    def encode(self, tensor: Tensor) -> Tensor:
        """Return the coefficients, [chunks, entries of a chunk]."""
        blocks = tensor.reshape(self.grid[0], self.height, self.grid[1], self.width).transpose(1, 2)
        return (self._left @ blocks @ self._right).reshape(self.count, self.entries)

    def decode(self, coefficients: Tensor) -> Tensor:
        """Return the tensor that has these coefficients."""
        blocks = coefficients.view(*self.grid, self.height, self.width)
        return (self._left.T @ blocks @ self._right.T).transpose(1, 2).reshape(self.shape)

    def positions(self, packed: Tensor) -> Tensor:
        """Return the positions that `take` has packed, as an index into all coefficients as one row."""
        starts = torch.arange(self.count, device=packed.device)[:, None] * self.entries
        if self.k == self.entries:
            return (starts + torch.arange(self.k, device=packed.device)).flatten()
        inside = bits.unpack(packed, self.count * self.k, self.bits)
        return (starts + inside.view(self.count, self.k)).flatten()


@recorded(ENCODE)
def take(tensors: list[Tensor], chunks: list[Chunks]) -> Payload:
    """Move the largest coefficients of each chunk out of the tensors, into a payload.

    Bytes, for chunks with k of n coefficients: 4 k a chunk in float32, and ceil(k ceil(log2 n) / 8) for the
    positions in all chunks of a tensor.
    """
    values, indices = [], []
    for tensor, of in zip(tensors, chunks):
        coefficients = of.encode(tensor)
        positions = coefficients.abs().topk(of.k, dim=1, sorted=False).indices.sort(dim=1).values
        taken = coefficients.gather(1, positions)
        tensor -= of.decode(torch.zeros_like(coefficients).scatter_(1, positions, taken))
        values.append(taken.flatten())
        indices.append(bits.pack(positions, of.bits))
    return {"values": torch.cat(values), "indices": torch.cat(indices)}


@recorded(DECODE)
def mean_of_senders(payloads: list[Payload], chunks: list[Chunks]) -> list[Tensor]:
    """Return tensors in which each coefficient is the mean over the workers that sent it; zero without any.

    The payloads are added in the order of the workers.
    """
    sent = [of.count * of.k for of in chunks]
    packed = [-(-of.bits * count // 8) for of, count in zip(chunks, sent)]
    parts = [(payload["values"].split(sent), payload["indices"].split(packed)) for payload in payloads]
    means = []
    for i, of in enumerate(chunks):
        total = parts[0][0][0].new_zeros(of.count * of.entries)
        senders = torch.zeros_like(total)
        for values, indices in parts:
            positions = of.positions(indices[i])
            total[positions] += values[i]
            senders[positions] += 1
        means.append(of.decode((total / senders.clamp_min(1)).view(of.count, of.entries)))
    return means


def _divisor(side: int, limit: int) -> int:
    return max(d for d in range(1, min(side, limit) + 1) if side % d == 0)


def _basis(n: int, like: Tensor) -> Tensor:
    """Return the matrix of the orthonormal DCT-II: row u has the cosine of frequency u."""
    places = torch.arange(n, dtype=torch.float64)
    cosines = torch.cos(math.pi / n * places[:, None] * (places + 0.5)) * math.sqrt(2 / n)
    cosines[0] = math.sqrt(1 / n)
    return cosines.to(like.device, like.dtype)
