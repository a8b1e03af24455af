"""The format of a payload between processes: a header of fixed length, and a body with its tensors."""

import torch
from torch import Tensor

from thinwire.traffic.payload import DTYPES, Payload
from thinwire.traffic.payload_kinds import KINDS

# How many numbers a header has. The first three are the bytes of the body, whether it is ragged, and the
# number of tensors. Then each tensor has its kind, type and length.
HEADER = 3 + 3 * len(KINDS)
# Tensors begin at multiples of this many bytes, so that they can be used inside the body without copies.
_ALIGNED = 8


def pack(payload: Payload, ragged: bool) -> tuple[Tensor, Tensor]:
    """Return the header, int64 [HEADER] on the CPU, and the body, uint8 [bytes] on the tensors' device."""
    entries: list[int] = []
    size = 0
    for kind, tensor in payload.items():
        entries += [KINDS.index(kind), DTYPES.index(tensor.dtype), len(tensor)]
        size += _room(len(tensor), tensor.dtype)
    header = torch.zeros(HEADER, dtype=torch.int64)
    header[: 3 + len(entries)] = torch.tensor([size, int(ragged), len(payload), *entries])
    device = next((tensor.device for tensor in payload.values()), None)
    body = torch.zeros(size, dtype=torch.uint8, device=device)
    for part, tensor in zip(unpack(header, body).values(), payload.values()):
        part.copy_(tensor.detach())
    return header, body


def body_bytes(header: Tensor) -> int:
    """Return how many bytes the body has."""
    return int(header[0])


def is_ragged(header: Tensor) -> bool:
    """Did the sender declare the payload ragged?"""
    return bool(header[1])


def unpack(header: Tensor, body: Tensor) -> Payload:
    """Return the payload of a header and a body; its tensors are views of the body."""
    _, _, tensors, *entries = header.tolist()
    payload, start = {}, 0
    for first in range(0, 3 * tensors, 3):
        kind, dtype, length = entries[first : first + 3]
        type_ = DTYPES[dtype]
        payload[KINDS[kind]] = body[start : start + length * type_.itemsize].view(type_)
        start += _room(length, type_)
    return payload


def _room(length: int, dtype: torch.dtype) -> int:
    """Return the bytes of a tensor in the body, including the padding before the next one."""
    size = length * dtype.itemsize
    return size + -size % _ALIGNED
