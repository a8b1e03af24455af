"""Random streams, derived by hash from what they belong to.

A stream is named by its parts, for instance (seed, "augment", 3). Nothing is carried from step to step, so a
stream depends neither on the order in which the workers run nor on where a run was interrupted.
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


class Stream:
    """A random stream that begins anew at every step (or epoch), with a seed for each."""

    def __init__(self, *name: str | int) -> None:
        self.seed = derive(*name)

    def at(self, step: int) -> int:
        """The 63-bit seed at this step."""
        return at_step(self.seed, step)


# The streams of a run. `seed` is the run's, `worker` a rank; methods have their own.


def of_weights(seed: int) -> int:
    """The seed of the initial weights, which all workers and all methods share."""
    return derive(seed, "weights")


def of_order(seed: int) -> Stream:
    """The order of the images: a seed for each epoch, the same on all workers."""
    return Stream(seed, "order")


def of_augmentation(seed: int, worker: int) -> Stream:
    """What is done to a worker's images: a seed for each step."""
    return Stream(seed, "augment", worker)


def of_mixup(seed: int, worker: int) -> Stream:
    """How a worker's images are mixed: a seed for each step."""
    return Stream(seed, "mixup", worker)


def of_forward_pass(seed: int, worker: int) -> Stream:
    """A worker's dropout: a seed for each step."""
    return Stream(seed, "forward", worker)


def of_method(seed: int, worker: int) -> Stream:
    """`Run.generator` of a worker: a seed for each step, and one for `Method.setup`."""
    return Stream(seed, "method", worker)


def of_method_setup(seed: int, worker: int) -> int:
    """`Run.generator` of a worker in `Method.setup`."""
    return derive(of_method(seed, worker).seed, "setup")
