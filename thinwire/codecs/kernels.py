"""Whole convolution kernels: a payload of a weight's most important output filters, with their positions.

A weight has the shape [C_out, C_in, ...]; a *kernel* is its slice at one of the C_out positions. The kernels
of a linear layer, of shape [C_out, C_in], are its rows. The positions are encoded as int32 or as a bitmap,
whichever is shorter. If all kernels are sent, there are none.
"""

from typing import Literal

import torch
from torch import Tensor

from thinwire.codecs import select, sparse
from thinwire.trace.recorder import DECODE, ENCODE, recorded
from thinwire.traffic.payload import Payload

Importance = Literal["l1", "l2", "random"]


@recorded(ENCODE)
def take(
    tensor: Tensor, count: int, importance: Importance, generator: torch.Generator | None = None
) -> Payload:
    """Move the `count` most important kernels into a payload; zeros take their place in the tensor.

    Args:
        tensor: contiguous, [C_out, C_in, ...]; changed in place.
        count: how many kernels to take, at most C_out.
        importance: the norm that ranks the kernels; `random` draws them, independently of their values.
        generator: for random kernels, on the CPU.
    """
    rows = tensor.view(tensor.shape[0], -1)
    positions = _positions(rows, count, importance, generator)
    payload = {"values": rows[positions].flatten()}
    if count < len(rows):
        payload["sizes"] = torch.full((1,), count, dtype=torch.int32, device=tensor.device)
        payload["indices"] = sparse.encode_indices(positions, len(rows), _encoding(count, len(rows)))
    rows.index_fill_(0, positions, 0)
    return payload


def _positions(rows: Tensor, count: int, importance: Importance, generator: torch.Generator | None) -> Tensor:
    """Return the positions of the kernels to take, in increasing order."""
    if importance == "random":
        assert generator is not None
        return select.random([rows[:, 0]], [count], generator)[0]
    norms = rows.norm(p=1 if importance == "l1" else 2, dim=1)
    # Among equal norms the first ones are taken.
    return norms.sort(descending=True, stable=True).indices[:count].sort().values


@recorded(DECODE)
def give(payload: Payload, like: Tensor) -> Tensor:
    """Return a tensor of the shape of `like`: the payload's kernels at their positions, zeros elsewhere."""
    if "indices" not in payload:
        return payload["values"].view(like.shape)
    dense = torch.zeros_like(like)
    rows = dense.view(like.shape[0], -1)
    kernels = payload["values"].view(-1, rows.shape[1])
    count = len(kernels)
    rows[sparse.decode_indices(payload["indices"], count, _encoding(count, len(rows)))] = kernels
    return dense


def _encoding(count: int, of: int) -> sparse.Encoding:
    return "int32" if 4 * count <= -(-of // 8) else "bitmap"
