"""Random numbers with a new stream at every step."""

from collections.abc import Callable

import torch


class StepGenerator:
    """A generator that is seeded when it is first used in a step, because few methods use it."""

    def __init__(self) -> None:
        self._generator = torch.Generator()
        self._seed: Callable[[], int] | None = None

    def begin(self, seed: Callable[[], int]) -> None:
        """Begin a new stream, with the seed that `seed` computes."""
        self._seed = seed

    def get(self) -> torch.Generator:
        """Return the generator, where the stream of this step stands."""
        if self._seed is not None:
            self._generator.manual_seed(self._seed())
            self._seed = None
        return self._generator
