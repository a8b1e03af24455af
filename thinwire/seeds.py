"""Random streams, derived by hash from what they belong to.

A stream is named by its parts, for instance (seed, "worker", 3, step). Nothing is carried from step to
step, so a stream depends neither on the order in which workers take their turns nor on where a run was
interrupted.
"""

import struct
from hashlib import blake2b


def derive(*parts: str | int) -> int:
    """A 63-bit seed for the stream of this name."""
    text = "\0".join(f"{type(part).__name__}:{part}" for part in parts)
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


def at_step(seed: int, step: int) -> int:
    """The 63-bit seed of a stream at one step; the fast form of `derive` for the training loop."""
    packed = struct.pack("<QQ", seed, step)
    return int.from_bytes(blake2b(packed, digest_size=8).digest(), "little") >> 1
