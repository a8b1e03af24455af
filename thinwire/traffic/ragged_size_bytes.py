"""Bytes of the sizes of a ragged payload. They travel with it, as an integer for each tensor."""

_BYTES_OF_A_SIZE = 8


def ragged_size_bytes(tensors: int) -> int:
    """The bytes of the sizes of a ragged payload that consists of so many tensors."""
    return _BYTES_OF_A_SIZE * tensors
