"""Whole convolution kernels: the most important output filters of a weight travel, with their places.

A weight is [C_out, C_in, ...]; a kernel is what stands at one of the C_out places. The places are written
down as int32 or as a bitmap, whichever is shorter, and not at all if all kernels travel.
"""

from typing import Literal

import torch
from torch import Tensor

from thinwire.codecs import indices
from thinwire.traffic.payload import Payload

Importance = Literal["l1", "l2"]


def take(tensor: Tensor, count: int, importance: Importance) -> Payload:
    """Take the `count` kernels of largest norm out of the tensor, which keeps zeros in their places."""
    rows = tensor.view(tensor.shape[0], -1)
    norms = rows.norm(p=1 if importance == "l1" else 2, dim=1)
    # Of equals the first.
    places = norms.sort(descending=True, stable=True).indices[:count].sort().values
    payload = {"values": rows[places].flatten()}
    if count < len(rows):
        payload["sizes"] = torch.tensor([count], dtype=torch.int32, device=tensor.device)
        payload["indices"] = indices.encode(places, len(rows), _encoding(count, len(rows)))
    rows[places] = 0
    return payload


def give(payload: Payload, like: Tensor) -> Tensor:
    """The kernels in their places, zeros elsewhere."""
    if "indices" not in payload:
        return payload["values"].view(like.shape)
    dense = torch.zeros_like(like)
    rows = dense.view(like.shape[0], -1)
    kernels = payload["values"].view(-1, rows.shape[1])
    rows[indices.decode(payload["indices"], _encoding(len(kernels), len(rows)))] = kernels
    return dense


def _encoding(count: int, of: int) -> indices.Encoding:
    return "int32" if 4 * count <= -(-of // 8) else "bitmap"
