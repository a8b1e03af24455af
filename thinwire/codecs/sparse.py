"""A few entries of each tensor of a list, as one payload.

Positions count through all tensors as if they were one row, so one payload carries any number of tensors.
Error feedback is in what stays: the entries that were not taken are left where they are, and nothing is
lost, since what was taken plus what stays is what was there, exactly.
"""

import torch
from torch import Tensor

from thinwire.codecs import indices
from thinwire.codecs.indices import Encoding
from thinwire.codecs.select import Select, count
from thinwire.traffic.payload import Payload


def choose(tensors: list[Tensor], density: float, select: Select, generator: torch.Generator) -> list[Tensor]:
    """The positions in each tensor, taken as a row, of the share `density` of its entries."""
    rows = [tensor.view(-1) for tensor in tensors]
    return [select(row, count(density, row.numel()), generator) for row in rows]


def take(tensors: list[Tensor], chosen: list[Tensor], encoding: Encoding) -> Payload:
    """Take the chosen entries out of the tensors, which keep zeros in their places."""
    values = torch.cat([tensor.view(-1)[positions] for tensor, positions in zip(tensors, chosen)])
    erase(tensors, chosen)
    starts, numel = [], 0
    for tensor in tensors:
        starts.append(numel)
        numel += tensor.numel()
    through = torch.cat([positions + start for positions, start in zip(chosen, starts)])
    return {"values": values, "indices": indices.encode(through, numel, encoding)}


def varies(selection: str, encoding: Encoding) -> bool:
    """Do payloads differ in size? So do entries above a sampled threshold, and fillers of run lengths."""
    return selection == "sampled" or encoding == "run_length"


def erase(tensors: list[Tensor], chosen: list[Tensor]) -> None:
    """Set the chosen entries to zero."""
    for tensor, positions in zip(tensors, chosen):
        tensor.view(-1)[positions] = 0


def mean(payloads: list[Payload], like: list[Tensor], encoding: Encoding) -> list[Tensor]:
    """The mean of what several workers took, dense, in the shapes of `like`.

    Added up in the order of the workers; entries that a worker did not send count as zero.
    """
    sizes = [tensor.numel() for tensor in like]
    total = torch.zeros(sum(sizes), dtype=like[0].dtype, device=like[0].device)
    for payload in payloads:
        total.index_add_(0, indices.decode(payload["indices"], encoding), payload["values"])
    total /= len(payloads)
    return [part.view(t.shape) for part, t in zip(total.split(sizes), like)]
