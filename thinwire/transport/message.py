"""A payload as it travels between processes: a header of fixed length, and its tensors end to end."""

import torch
from torch import Tensor

from thinwire.channel import Payload
from thinwire.errors import MethodError
from thinwire.traffic.ledger import KINDS

# Numbers of a header: bytes of the body, is it ragged, tensors; of each of these its kind, type, dimensions.
HEADER = 64
_DTYPES = (
    torch.float32,
    torch.float64,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
)
# Tensors begin at multiples of this many bytes, so that they can be used where they lie.
_ALIGNED = 8


def pack(payload: Payload, ragged: bool) -> tuple[Tensor, Tensor]:
    """The header [64], on the CPU, and the body [bytes], where the tensors are.

    Raises:
        MethodError: there is no room in the header for all dimensions, or no number for a type.
    """
    about = []
    parts = []
    for kind, tensor in payload.items():
        if tensor.dtype not in _DTYPES:
            raise MethodError(f"a payload of type {tensor.dtype} cannot travel: view it as torch.uint8")
        about += [KINDS.index(kind), _DTYPES.index(tensor.dtype), tensor.dim(), *tensor.shape]
        # Not view(-1): a single element keeps the stride that it had among others, and has no bytes to view.
        raw = tensor.detach().contiguous().as_strided((tensor.numel(),), (1,)).view(torch.uint8)
        parts += [raw, raw.new_zeros(-len(raw) % _ALIGNED)]
    if len(about) + 3 > HEADER:
        raise MethodError(f"a payload of {len(payload)} tensors has too many dimensions: flatten them")
    body = torch.cat(parts) if parts else torch.zeros(0, dtype=torch.uint8)
    header = torch.zeros(HEADER, dtype=torch.int64)
    header[: len(about) + 3] = torch.tensor([len(body), int(ragged), len(payload), *about])
    return header, body


def body_bytes(header: Tensor) -> int:
    """How long the body is."""
    return int(header[0])


def is_ragged(header: Tensor) -> bool:
    """Was the payload declared ragged by its sender?"""
    return bool(header[1])


def unpack(header: Tensor, body: Tensor) -> Payload:
    """The payload of a header and a body; its tensors lie in the body."""
    numbers = iter(header.tolist()[2:])
    payload, start = {}, 0
    for _ in range(next(numbers)):
        kind, dtype, dimensions = KINDS[next(numbers)], _DTYPES[next(numbers)], next(numbers)
        shape = [next(numbers) for _ in range(dimensions)]
        size = torch.Size(shape).numel() * dtype.itemsize
        payload[kind] = body[start : start + size].view(dtype).view(shape)
        start += size + -size % _ALIGNED
    return payload
