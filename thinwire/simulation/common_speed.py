"""Brings schedules that were measured one after the other to one speed of the machine.

A core is faster at one time than at another, by a quarter and more, and each method is mirrored at a time of
its own. Without a remedy, a method would seem slow because the machine was. But the methods of one experiment
compute the same forward and backward passes. So the seconds of these passes tell how fast the machine was.
All seconds of a schedule are scaled such that its passes take as long as in the median over all schedules.

If a method wants fewer gradients, parts of its backward pass are others. Then only those parts of the passes
are compared that all schedules have.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from thinwire.schedule.operations import Compute, Operation, Post, Step
from thinwire.simulation.simulate import SimulatedCell
from thinwire.trace.recorder import BACKWARD, FORWARD

# The kind of a pass, and the name of a layer or a parameter in it.
Part = tuple[str, str]


def to_common_speed(cells: Sequence[SimulatedCell]) -> None:
    """Scale the seconds of these cells, which have the same model and the same batch of a worker."""
    places = [(cell, worker) for cell in cells for worker in cell.steps]
    scaled = at_common_speed([cell.steps[worker] for cell, worker in places])
    for (cell, worker), steps in zip(places, scaled):
        cell.steps[worker] = steps


def at_common_speed(schedules: Sequence[Sequence[Step]]) -> list[list[Step]]:
    """The schedules, with scaled seconds.

    A schedule whose forward pass consists of other layers is compared with its like only.
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


def _passes(steps: Sequence[Step]) -> dict[Part, float]:
    """The seconds of a forward and a backward pass, by their parts; the mean over the steps."""
    found: dict[Part, float] = defaultdict(float)
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
