"""What is typical of the steps that this machine computed, and how much they vary."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

import numpy as np

from thinwire.simulation.operations import Compute, Step, Wait
from thinwire.simulation.program import Floats
from thinwire.trace.recorder import HARNESS

# The first steps of a run are slower than all others.
WARM_UP_STEPS = 3


def typical(steps: Sequence[Step]) -> list[Step]:
    """The steps with typical times: medians over all steps that have the same operations."""
    places: dict[tuple[object, ...], list[int]] = defaultdict(list)
    for number, step in enumerate(steps):
        places[_structure(step)].append(number)
    made = [list(step) for step in steps]
    for numbers in places.values():
        counted = [number for number in numbers if number >= WARM_UP_STEPS] or numbers
        for place, operation in enumerate(steps[numbers[0]]):
            if isinstance(operation, Compute):
                taken = median(steps[number][place].seconds for number in counted)  # type: ignore[union-attr]
                for number in numbers:
                    made[number][place] = replace(operation, seconds=taken)
    return made


def pace(measured: Sequence[Step], steps: int, workers: int, seed: int, variation: float = 0.0) -> Floats:
    """[steps, workers]: factors of typical seconds, because no two steps take the same time.

    They are drawn from what the measured steps took over the median of those with the same operations.

    Args:
        measured: the steps.
        steps: that are drawn.
        workers: of each step.
        seed: of the draw.
        variation: standard deviation of a step over its mean, besides the measured one.
    """
    alike: dict[tuple[object, ...], list[float]] = defaultdict(list)
    for step in measured[WARM_UP_STEPS:]:
        alike[_structure(step)].append(_computing(step))
    factors = [s / median(all_) for all_ in alike.values() if len(all_) > 2 for s in all_ if s > 0]
    generator = np.random.default_rng(seed)
    drawn = generator.choice(np.array(factors or [1.0]), (steps, workers))
    if not variation:
        return drawn
    shape = 1 / variation**2  # of a gamma distribution of mean 1
    return drawn * generator.gamma(shape, 1 / shape, (steps, workers))


def _computing(step: Step) -> float:
    return sum(o.seconds for o in step if isinstance(o, Compute) and o.kind != HARNESS)


def _structure(step: Step) -> tuple[object, ...]:
    """What two steps have in common if they have the same operations."""
    return tuple(
        (o.kind, o.name) if isinstance(o, Compute) else "wait" if isinstance(o, Wait) else (o.channel, o.verb)
        for o in step
    )
