"""Seeds of random streams, derived by a hash from the names of the streams.

The name of a stream is a list of parts, for example (seed, "augment", 3). No random state is carried from
step to step. So a stream depends neither on the order of the workers nor on interruptions of the run.
"""

import struct
from hashlib import blake2b


def derive(*parts: str | int) -> int:
    """Return the 63-bit seed of the stream with this name."""
    text = "\0".join(f"{type(part).__name__}:{part}" for part in parts)
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


def at_step(seed: int, step: int) -> int:
    """Return the 63-bit seed of a stream at one step; faster than `derive`, for the training loop."""
    packed = struct.pack("<QQ", seed, step)
    return int.from_bytes(blake2b(packed, digest_size=8).digest(), "little") >> 1


class Stream:
    """A random stream with a new seed at every step (or epoch), and one for what is drawn before them."""

    def __init__(self, *name: str | int) -> None:
        self.seed = derive(*name)

    def at(self, step: int) -> int:
        return at_step(self.seed, step)

    def in_setup(self) -> int:
        return derive(self.seed, "setup")


def of_run(suite: int, dataset: str, model: str, repetition: int) -> int:
    """The seed of a run, alike for all methods and numbers of workers; `suite` is the seed of its suite."""
    return derive(suite, dataset, model, repetition)


# The streams of a run. `seed` is the seed of the run and `worker` the worker's rank.


def of_weights(seed: int) -> int:
    """Initial weights: one seed, the same for all workers and all methods."""
    return derive(seed, "weights")


def of_order(seed: int) -> Stream:
    """Order of the images: a seed for each epoch, the same for all workers."""
    return Stream(seed, "order")


def of_partition(seed: int) -> int:
    """The partition of the inputs: one seed, the same for all workers and all methods."""
    return derive(seed, "partition")


def of_passes(seed: int, worker: int) -> Stream:
    """Order of a worker's own inputs, if they are partitioned: a seed for each of its passes over them."""
    return Stream(seed, "order", worker)


def of_augmentation(seed: int, worker: int) -> Stream:
    """Augmentation of a worker's images: a seed for each step."""
    return Stream(seed, "augment", worker)


def of_mixup(seed: int, worker: int) -> Stream:
    """Mixup of a worker's images: a seed for each step."""
    return Stream(seed, "mixup", worker)


def of_forward_pass(seed: int, worker: int) -> Stream:
    """Dropout in a worker's forward pass: a seed for each step."""
    return Stream(seed, "forward", worker)


def of_method(seed: int, worker: int) -> Stream:
    """`Run.generator` of a worker: a seed for each step, and one for `Method.setup`."""
    return Stream(seed, "method", worker)


def of_shared_choices(seed: int) -> Stream:
    """`Run.shared_generator`, the same for all workers: a seed for each step, and one for `Method.setup`."""
    return Stream(seed, "shared")
