"""Payloads: what one worker hands to another, as flat tensors by kind.

The shape of a tensor, its class and its attributes carry information that no ledger counts. So the tensors of
a payload have one dimension, and they arrive as new plain tensors: nothing but their elements is transmitted.
The receiver must know the kinds, their order and their types beforehand. It must also know the sizes, unless
the payload is declared `ragged`; then the sizes travel too, and are counted.
"""

import torch
from torch import Tensor, nn

from thinwire.base.errors import MethodError
from thinwire.traffic.wire_bytes import KINDS, ragged_size_bytes

# Tensors of one dimension by kind (see thinwire.traffic.wire_bytes.KINDS). They may be empty.
Payload = dict[str, Tensor]

# The types that can be sent.
DTYPES = (
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
_PLAIN = (Tensor, nn.Parameter)
# The ledgers' own strings: those of a subclass, as keys of a payload, could carry more than a kind.
_KIND = {kind: kind for kind in KINDS}


def known(kind: str, where: str) -> str:
    """Check a kind and return it as the ledgers write it.

    Raises:
        MethodError: the ledgers do not know this kind.
    """
    if kind not in _KIND:
        raise MethodError(
            f"a payload of kind {kind!r} was handed to {where}: the ledgers know {', '.join(KINDS)}"
        )
    return _KIND[kind]


def plain(tensors: list[Tensor], where: str) -> list[Tensor]:
    """Check that the tensors are of no subclass, whose code could see what other workers hand over.

    Raises:
        MethodError: one of them is of a subclass.
    """
    for tensor in tensors:
        if type(tensor) not in _PLAIN:
            raise MethodError(f"a {type(tensor).__name__} was handed to {where}: hand over a torch.Tensor")
    return tensors


def flat(payload: Payload, where: str) -> Payload:
    """Check that a payload consists of plain dense tensors of one dimension, by known kinds, and return it.

    Raises:
        MethodError: it does not.
    """
    plain(list(payload.values()), where)
    for kind, tensor in payload.items():
        known(kind, where)
        if tensor.dim() != 1:
            raise MethodError(
                f"{kind} of shape {list(tensor.shape)} were handed to {where}, and payloads travel flat: "
                "hand over tensor.flatten(), and reshape it where it arrives"
            )
        if tensor.dtype not in DTYPES:
            raise MethodError(
                f"{kind} of type {tensor.dtype} were handed to {where}, and cannot travel: view them as "
                "torch.uint8"
            )
        if tensor.layout is not torch.strided or tensor.is_meta:
            raise MethodError(
                f"{kind} that are sparse or have no elements in memory were handed to {where}: hand over a "
                "dense tensor"
            )
    return {_KIND[kind]: tensor for kind, tensor in payload.items()}


def copy(payload: Payload) -> Payload:
    """Return the payload as it arrives: new tensors with the same elements, and nothing else."""
    return {kind: _copy(tensor) for kind, tensor in payload.items()}


def _copy(tensor: Tensor) -> Tensor:
    # Not clone(): a tensor of one element would keep its old stride, which is information.
    return torch.empty(len(tensor), dtype=tensor.dtype, device=tensor.device).copy_(tensor.detach())


def nbytes(tensors: list[Tensor]) -> int:
    """Bytes of the tensors' elements."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def bytes_by_kind(payload: Payload, ragged: bool) -> dict[str, int]:
    """Return the bytes of a payload by kind; for a ragged payload they include its sizes."""
    own = {kind: nbytes([tensor]) for kind, tensor in payload.items()}
    if ragged:
        own["sizes"] = own.get("sizes", 0) + ragged_size_bytes(len(payload))
    return own


def describe(payload: Payload, ragged: bool) -> list[str]:
    """Describe what the receiver knows of a payload: kinds in their order, types, and sizes if not ragged."""
    return [
        f"{kind} {str(tensor.dtype).removeprefix('torch.')}[{'' if ragged else len(tensor)}]"
        for kind, tensor in payload.items()
    ]
