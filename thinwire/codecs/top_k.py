"""Exact top-k of each tensor: the entries of largest magnitude travel, with their positions.

Positions are int32 and count through all tensors of the list as if they were one vector, so one payload
carries any number of tensors.
"""

import math

import torch
from torch import Tensor

from thinwire.channel import Payload


def count(density: float, numel: int) -> int:
    """How many of `numel` entries travel: their share `density`, rounded up, at least one."""
    # Rounded first: 0.07 * 100 is a little more than 7 in binary, and is meant to be 7.
    return max(1, math.ceil(round(density * numel, 6)))


def take(tensors: list[Tensor], density: float) -> Payload:
    """Take the largest entries out of each tensor; what is not taken stays, and the rest becomes zero.

    Nothing is lost: what was taken plus what stays is what was there, exactly.
    """
    values, positions = [], []
    start = 0
    for tensor in tensors:
        flat = tensor.view(-1)
        chosen = flat.abs().topk(count(density, flat.numel()), sorted=False).indices
        values.append(flat[chosen])
        positions.append(chosen.to(torch.int32) + start)
        flat[chosen] = 0
        start += flat.numel()
    return {"values": torch.cat(values), "indices": torch.cat(positions)}


def mean(payloads: list[Payload], like: list[Tensor]) -> list[Tensor]:
    """The mean of what several workers took, dense, in the shapes of `like`.

    Added up in the order of the workers; positions that a worker did not send count as zero.
    """
    sizes = [tensor.numel() for tensor in like]
    total = torch.zeros(sum(sizes), dtype=like[0].dtype, device=like[0].device)
    for payload in payloads:
        total.index_add_(0, payload["indices"], payload["values"])
    total /= len(payloads)
    return [part.view(t.shape) for part, t in zip(total.split(sizes), like)]
