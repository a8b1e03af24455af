"""Some entries of each tensor in a list, as one payload.

Positions are counted through all tensors as if they were one row, so one payload holds entries of any number
of tensors. This supports error feedback: entries that were not taken remain in the tensors. Nothing is lost,
because the taken and the remaining entries add up exactly to the original ones.
"""

import torch
from torch import Tensor

from thinwire.codecs import indices
from thinwire.codecs.indices import Encoding
from thinwire.codecs.select import Select, count
from thinwire.trace.recorder import DECODE, ENCODE, recorded
from thinwire.traffic.payload import Payload


@recorded(ENCODE)
def choose(tensors: list[Tensor], density: float, select: Select, generator: torch.Generator) -> list[Tensor]:
    """Choose the share `density` of the entries of each tensor; return positions in the tensor as a row."""
    rows = [tensor.view(-1) for tensor in tensors]
    return select(rows, [count(density, row.numel()) for row in rows], generator)


@recorded(ENCODE)
def take(tensors: list[Tensor], chosen: list[Tensor], encoding: Encoding) -> Payload:
    """Move the chosen entries into a payload; zeros take their place in the tensors."""
    values = torch.cat([tensor.view(-1)[positions] for tensor, positions in zip(tensors, chosen)])
    erase(tensors, chosen)
    starts, numel = [], 0
    for tensor in tensors:
        starts.append(numel)
        numel += tensor.numel()
    through = torch.cat([positions + start for positions, start in zip(chosen, starts)])
    return {"values": values, "indices": indices.encode(through, numel, encoding)}


def varies(selection: str, encoding: Encoding) -> bool:
    """Do the sizes of payloads depend on the values?

    They do if a sampled threshold selects the entries, and if run lengths may need fillers.
    """
    return selection == "sampled" or encoding == "run_length"


@recorded(ENCODE)
def erase(tensors: list[Tensor], chosen: list[Tensor]) -> None:
    """Set the chosen entries to zero."""
    for tensor, positions in zip(tensors, chosen):
        tensor.view(-1)[positions] = 0


@recorded(DECODE)
def mean(payloads: list[Payload], like: list[Tensor], encoding: Encoding) -> list[Tensor]:
    """Return the mean of the workers' payloads, dense, in the shapes of `like`.

    The payloads are added in the order of the workers. Entries that a worker did not send count as zero.
    """
    sizes = [tensor.numel() for tensor in like]
    total = torch.zeros(sum(sizes), dtype=like[0].dtype, device=like[0].device)
    for payload in payloads:
        values = payload["values"]
        total.index_add_(0, indices.decode(payload["indices"], values.numel(), encoding), values)
    total /= len(payloads)
    return [part.view(t.shape) for part, t in zip(total.split(sizes), like)]
