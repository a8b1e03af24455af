"""A payload as one flat tensor, and back."""

from collections.abc import Iterator

import torch
from torch import Tensor

from thinwire.traffic.payload import DTYPES, Payload
from thinwire.traffic.wire_bytes import KINDS

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
    """The bytes of a tensor in the body, including the padding before the next one."""
    size = length * dtype.itemsize
    return size + -size % _ALIGNED


def by_dtype(tensors: list[Tensor]) -> list[list[Tensor]]:
    """Group tensors by type; the groups are in the order of their first tensors."""
    groups: dict[torch.dtype, list[Tensor]] = {}
    for tensor in tensors:
        groups.setdefault(tensor.dtype, []).append(tensor)
    return list(groups.values())


def is_flat(tensors: list[Tensor]) -> bool:
    """Is there only one tensor, which is already contiguous?"""
    return len(tensors) == 1 and tensors[0].is_contiguous()


def fill(flat: Tensor, tensors: list[Tensor]) -> None:
    """Write the tensors into `flat`, one after the other."""
    torch.cat([tensor.reshape(-1) for tensor in tensors], out=flat)


def parts(flat: Tensor, like: list[Tensor]) -> list[Tensor]:
    """Return views of `flat` in the shapes of `like`."""
    pieces = flat.split([tensor.numel() for tensor in like])
    return [piece.view(tensor.shape) for piece, tensor in zip(pieces, like)]


def in_chunks(tensors: list[Tensor], size: int) -> Iterator[list[Tensor]]:
    """Divide the elements of the tensors, in order, into chunks; each chunk is a list of flat views.

    A chunk has at least `size` elements (the last one may have fewer) and fewer than 2 `size`.
    """
    chunk: list[Tensor] = []
    missing = size
    for tensor in tensors:
        for piece in tensor.reshape(-1).split(size):
            chunk.append(piece)
            missing -= len(piece)
            if missing <= 0:
                yield chunk
                chunk, missing = [], size
    if chunk:
        yield chunk


class Pool:
    """Flat tensors that are reused, because fresh memory would have to be paged in at every step."""

    def __init__(self) -> None:
        self._free: dict[tuple[torch.dtype, torch.device, int], list[Tensor]] = {}

    def take(self, like: list[Tensor]) -> Tensor:
        """Return a flat tensor with room for all of `like`; its content is arbitrary."""
        first, size = like[0], sum(tensor.numel() for tensor in like)
        free = self._free.get((first.dtype, first.device, size))
        return free.pop() if free else torch.empty(size, dtype=first.dtype, device=first.device)

    def give_back(self, flat: Tensor) -> None:
        """Return a tensor to the pool when it is no longer used."""
        self._free.setdefault((flat.dtype, flat.device, len(flat)), []).append(flat)
