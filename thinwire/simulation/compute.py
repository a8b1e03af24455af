"""What is typical of the steps that this machine computed, how much they vary, and its speed meanwhile."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

import numpy as np

from thinwire.simulation.operations import Compute, Operation, Post, Step, Wait
from thinwire.simulation.program import Floats
from thinwire.trace.recorder import BACKWARD, FORWARD, HARNESS

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

    They are drawn from what the measured steps took over the median of those with the same operations. The
    variation, a standard deviation over the mean, comes on top.
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


def at_common_speed(schedules: Sequence[Sequence[Step]]) -> list[list[Step]]:
    """Schedules that were measured one after the other, with all seconds scaled to one speed of the machine.

    A core is faster at one time than at another, by a quarter and more. Without a remedy, a method would seem
    slow because the machine was. But methods with the same layers compute the same passes: so all seconds of
    a schedule are scaled such that its passes take as long as in the median over these schedules. If a method
    wants fewer gradients, only those parts of the passes are compared that all of them have.
    """
    passes = [_passes(steps) for steps in schedules]
    models = [frozenset(name for kind, name in own if kind == FORWARD) for own in passes]
    seconds: list[float] = []
    for model, own in zip(models, passes):
        alike = [other for key, other in zip(models, passes) if key == model]
        seconds.append(sum(own[part] for part in own if all(part in other for other in alike)))
    made = []
    for steps, model, measured in zip(schedules, models, seconds):
        typical = median(others for key, others in zip(models, seconds) if key == model)
        factor = typical / measured if measured else 1.0
        made.append([[_scaled(operation, factor) for operation in step] for step in steps])
    return made


def _passes(steps: Sequence[Step]) -> dict[tuple[str, str], float]:
    """The seconds of a forward and a backward pass, by their parts; the mean over the steps."""
    found: dict[tuple[str, str], float] = defaultdict(float)
    for operation in (o for step in steps for o in step):
        if isinstance(operation, Compute) and operation.kind in (FORWARD, BACKWARD):
            found[operation.kind, operation.name] += operation.seconds / len(steps)
    return dict(found)


def _scaled(operation: Operation, factor: float) -> Operation:
    if isinstance(operation, Compute):
        return replace(operation, seconds=factor * operation.seconds)
    if isinstance(operation, Post):
        return replace(operation, server_seconds=factor * operation.server_seconds)
    return operation
