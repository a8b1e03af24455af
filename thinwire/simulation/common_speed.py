"""Brings schedules that were measured one after the other to one speed of the machine.

A core is faster at one time than at another, by a quarter and more, and each method is mirrored at a time of
its own. Without a remedy, a method would seem slow because the machine was. But the methods of one experiment
compute the same forward and backward passes. So the seconds of these passes tell how fast the machine was.
All seconds of a schedule are scaled such that its passes take as long as in the median over all schedules.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from thinwire.schedule.operations import Compute, Operation, Post, Step
from thinwire.simulation.simulate import SimulatedCell
from thinwire.trace.recorder import BACKWARD, FORWARD


def to_common_speed(cells: Sequence[SimulatedCell]) -> None:
    """Scale the seconds of these cells, which have the same model and the same batch of a worker."""
    places = [(cell, worker) for cell in cells for worker in cell.steps]
    scaled = at_common_speed([cell.steps[worker] for cell, worker in places])
    for (cell, worker), steps in zip(places, scaled):
        cell.steps[worker] = steps


def at_common_speed(schedules: Sequence[Sequence[Step]]) -> list[list[Step]]:
    """The schedules, with scaled seconds.

    Schedules are compared only with those whose passes consist of the same layers.
    """
    passes = [_passes(steps) for steps in schedules]
    seconds = [sum(o.seconds for o in own) / len(steps) for own, steps in zip(passes, schedules)]
    layers = [frozenset(o.name for o in own) for own in passes]
    alike = defaultdict(list)
    for key, own in zip(layers, seconds):
        alike[key].append(own)
    return [
        [[_scaled(o, median(alike[key]) / own) for o in step] for step in steps] if own else [*steps]
        for steps, key, own in zip(schedules, layers, seconds)
    ]


def _passes(steps: Sequence[Step]) -> list[Compute]:
    every = [o for step in steps for o in step]
    return [o for o in every if isinstance(o, Compute) and o.kind in (FORWARD, BACKWARD)]


def _scaled(operation: Operation, factor: float) -> Operation:
    if isinstance(operation, Compute):
        return replace(operation, seconds=factor * operation.seconds)
    if isinstance(operation, Post):
        return replace(operation, server_seconds=factor * operation.server_seconds)
    return operation
