"""The largest entries of a tensor's chunks, with their positions, in full precision or in few bits.

A tensor is taken as the matrix [C_out, all others], or as one row if it has fewer than two dimensions. The
matrix is divided into equal chunks. Each side of a chunk divides that of the matrix: it is the largest
divisor up to a limit.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from thinwire.codecs import bits
from thinwire.trace.recorder import DECODE, ENCODE, recorded
from thinwire.traffic.payload import Payload

# The width of a value that is sent as it is.
FULL = 32
# The standard deviations that all bins together are wide.
_RANGE = 6
# Values of one tensor, flat, and their positions, as an index into all its chunks as one row.
Sent = tuple[Tensor, Tensor]


class Chunks:
    """The chunks of tensors with the shape, type and device of `like`.

    Args:
        like: a tensor of any shape with at least one entry.
        limit: the longest side of a chunk, in entries.
        most: how many entries of each chunk are sent; all of them in smaller chunks.
    """

    def __init__(self, like: Tensor, limit: int, most: int) -> None:
        rows = len(like) if like.dim() > 1 else 1
        columns = like.numel() // rows
        self.shape = like.shape
        self.height, self.width = _divisor(rows, limit), _divisor(columns, limit)
        self.grid = rows // self.height, columns // self.width
        self.count, self.entries = math.prod(self.grid), self.height * self.width
        self.k = min(most, self.entries)
        # Where whole chunks are sent, positions need not be told.
        self.bits = bits.width(self.entries) if self.k < self.entries else 0

    def encode(self, tensor: Tensor) -> Tensor:
        """Return the chunks, [chunks, entries of a chunk]."""
        return self._blocks(tensor).reshape(self.count, self.entries)

    def decode(self, rows: Tensor) -> Tensor:
        """Return the tensor that has these chunks."""
        return self._tensor(rows.view(*self.grid, self.height, self.width))

    def _blocks(self, tensor: Tensor) -> Tensor:
        return tensor.reshape(self.grid[0], self.height, self.grid[1], self.width).transpose(1, 2)

    def _tensor(self, blocks: Tensor) -> Tensor:
        return blocks.transpose(1, 2).reshape(self.shape)

    def largest(self, rows: Tensor) -> Tensor:
        """Return the positions of the k largest magnitudes of each row, [chunks, k], in increasing order."""
        return rows.abs().topk(self.k, dim=1, sorted=False).indices.sort(dim=1).values

    def positions(self, packed: Tensor) -> Tensor:
        """Return the positions that `take` has packed, as an index into all chunks as one row."""
        starts = torch.arange(self.count, device=packed.device)[:, None] * self.entries
        if self.k == self.entries:
            return (starts + torch.arange(self.k, device=packed.device)).flatten()
        inside = bits.unpack(packed, self.count * self.k, self.bits)
        return (starts + inside.view(self.count, self.k)).flatten()


@recorded(ENCODE)
def quantise(values: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """Return a number of few bits for each value, int64, and the table of the mean value behind each.

        s = 6 sigma / 2^b;  a number is round((x - mean) / s) + 2^(b - 1), and at least 0 and at most 2^b - 1

    Source: the compressor of Templar (tplr-ai/templar, `src/tplr/compress.py`), in which the numbers are
    called bins, and sigma is the standard deviation of a sample. There the table has the differences to the
    mean, which is sent beside it; here it has their sums. `table[numbers]` decodes.

    Args:
        values: flat, at least one. If all are equal, or there is only one, the result is exact.
        width: bits of a number, at least 1. A table is found with 2^width comparisons for each value.
    """
    bins = 2**width
    mean = values.mean()
    centred = values - mean
    scale = _RANGE / bins * centred.norm() / max(1, len(values) - 1) ** 0.5
    scale = torch.where(scale > 0, scale, 1)
    numbers = (centred / scale + bins // 2).round().clamp(0, bins - 1).to(torch.int64)
    # Sums over rows and not by scattering, which adds in any order on a GPU.
    members = numbers == torch.arange(bins, device=values.device)[:, None]
    sums = torch.where(members, centred, 0).sum(1)
    return numbers, mean + sums / members.sum(1).clamp_min(1)


@recorded(ENCODE)
def take(tensors: list[Tensor], chunks: Sequence[Chunks], width: int = FULL) -> Payload:
    """Move the largest entries of each chunk out of the tensors, into a payload.

    What is rounded stays in the tensors. Bytes of a tensor whose chunks have n entries, of which k are sent:
    4 k a chunk in float32, or ceil(k chunks width / 8) + 4 2^width in few bits; and for the positions
    ceil(k chunks ceil(log2 n) / 8).

    Args:
        tensors: changed in place.
        chunks: those of each tensor.
        width: bits of a value, for `quantise`; or `FULL`.
    """
    values, indices, scales = [], [], []
    for tensor, of in zip(tensors, chunks):
        rows = of.encode(tensor)
        positions = of.largest(rows)
        taken = rows.gather(1, positions)
        if width == FULL:
            values.append(taken.flatten())
        else:
            codes, table = quantise(taken.flatten(), width)
            values.append(bits.pack(codes, width))
            scales.append(table)
            taken = table[codes].view_as(taken)
        tensor -= of.decode(torch.zeros_like(rows).scatter_(1, positions, taken))
        indices.append(bits.pack(positions, of.bits))
    payload = {"values": torch.cat(values), "indices": torch.cat(indices)}
    return payload | ({"scales": torch.cat(scales)} if scales else {})


@recorded(DECODE)
def read(payload: Payload, chunks: Sequence[Chunks], width: int = FULL) -> list[Sent]:
    """Return what `take` has sent of each tensor."""
    sent = [of.count * of.k for of in chunks]
    packed = payload["indices"].split([-(-of.bits * count // 8) for of, count in zip(chunks, sent)])
    if width == FULL:
        values = payload["values"].split(sent)
    else:
        codes = payload["values"].split([-(-count * width // 8) for count in sent])
        rows = payload["scales"].view(len(chunks), 2**width)
        values = tuple(
            table[bits.unpack(code, count, width)] for table, code, count in zip(rows, codes, sent)
        )
    return [(value, of.positions(part)) for value, of, part in zip(values, chunks, packed)]


@recorded(DECODE)
def mean(received: list[list[Sent]], chunks: Sequence[Chunks], of_senders: bool) -> list[Tensor]:
    """Return the mean of what the workers have sent, dense, in the tensors' shapes.

    What the workers have sent is added in their order.

    Args:
        received: what `read` gave, for each worker.
        chunks: those of each tensor.
        of_senders: whether an entry is the mean over the workers that sent it, and zero without any; or over
            all, of which the others count as zero.
    """
    means = []
    for i, of in enumerate(chunks):
        total = received[0][i][0].new_zeros(of.count * of.entries)
        senders = torch.zeros_like(total)
        for worker in received:
            values, positions = worker[i]
            total[positions] += values
            senders[positions] += 1
        total /= senders.clamp_min(1) if of_senders else len(received)
        means.append(of.decode(total.view(of.count, of.entries)))
    return means


def _divisor(side: int, limit: int) -> int:
    return max(d for d in range(1, min(side, limit) + 1) if side % d == 0)
