"""Seconds of a whole step of each method, with the networks and settings of the suites of simulated times.

Four workers on two nodes share the device and a process, so their calls cost next to nothing. A fourth of
their step is what one of them computes. benchmarks/method_steps.py sets it against the described device.
"""

import gc
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from statistics import median
from time import perf_counter_ns
from typing import NamedTuple

import torch

from gpu_parts.part import Found, Place, first_line
from thinwire import plugins
from thinwire.api.run import Task
from thinwire.base.options import resolve
from thinwire.base.placement import Cluster
from thinwire.config.cell import Cell
from thinwire.config.expand import cells
from thinwire.config.suite import load
from thinwire.config.suite_schema import Round
from thinwire.data.arrays import Rows
from thinwire.simulation.stand_ins import Network, data_of
from thinwire.simulation.without_data import EVERY_STEP
from thinwire.trace.recorder import HARNESS, WAIT
from thinwire.train.cell_task import deterministic, task_with
from thinwire.train.tracing import record_spans
from thinwire.train.trainer import Trainer

# One network of each suite.
SUITES = {"times/cifar10": "resnet18", "times/imagenet_mini": "resnet50", "times/text": "gpt_124m"}
CLUSTER = Cluster(4, 2)
_SMALL = {("resnet18", "ps_sgd"), ("resnet18", "dgc")}
_BUCKET_MB = 25
_STEPS = 400  # of an epoch: more than are made, because a run evaluates after it
_WARM_UP_STEPS = 2  # that load kernels and fill what is under way
_TIMED_STEPS = 4  # at least two rounds


class Measured(NamedTuple):
    """A method of a suite, as it is measured."""

    cell: Cell
    round: Round  # whose steps are all mirrored


def measured(suite: str) -> Iterator[Measured]:
    """The methods of a suite with its network, and the rounds of a few steps that stand for long ones.

    SSGD has one size of buckets, because workers compute alike with all of them.
    """
    settings = load(suite).without_data
    assert settings is not None
    for cell in cells(suite):
        bucket = cell.method.options.get("bucket_mb", _BUCKET_MB)
        if cell.model.label == SUITES[suite] and bucket == _BUCKET_MB:
            of_suite = settings.rounds.get(cell.method.label, EVERY_STEP)
            method = replace(cell.method, options={**cell.method.options, **of_suite.options})
            placed = replace(cell, method=method, workers=CLUSTER.workers, nodes=CLUSTER.nodes)
            yield Measured(placed, Round(steps=of_suite.mirrored or of_suite.steps))


def part(place: Place, found: Found) -> None:
    """Time each method of each suite."""
    for suite, network in SUITES.items():
        figures = found.figures[network] = {}
        every = list(measured(suite))
        made = Network(every[0].cell)
        for cell, round_ in every:
            if place.small and (network, cell.method.label) not in _SMALL:
                continue
            try:
                figures[cell.method.label] = _milliseconds(place, cell, round_, made)
            except Exception as error:
                found.broken.append(f"{network}, {cell.method.label}: {first_line(error)}")
            gc.collect()  # what a run has on the device


def _milliseconds(place: Place, cell: Cell, round_: Round, network: Network) -> dict[str, float]:
    """Of a worker's step: all of it, and then each kind of activity and its calls."""
    if place.small:
        cell = replace(cell, recipe=cell.recipe.model_copy(update={"batch": 1, "precision": "fp32"}))
    deterministic(place.device, cell.recipe.precision)
    method: type = plugins.get("method", cell.method.use).load()
    run = Trainer(_task(place, cell, network), method, resolve(method, cell.method.options))
    run.setup()
    steps = round_.steps

    def one_round() -> None:
        run.train(until=run.step + steps)

    for _ in range(0 if place.small else -(-_WARM_UP_STEPS // steps)):
        one_round()
    rounds = 1 if place.small else max(2, _TIMED_STEPS // steps)
    whole = median(place.seconds(one_round) for _ in range(rounds)) / steps / cell.workers

    # After the timed rounds, because recorders make steps longer.
    return {"step": 1e3 * whole} | _kinds(place, run, max(2, steps))


def _kinds(place: Place, run: Trainer, steps: int) -> dict[str, float]:
    """Milliseconds of each kind of activity in so many further steps, and calls, of a worker's step."""

    def now() -> int:
        place.wait()
        return perf_counter_ns()

    recorders, before = record_spans(run, now), run.step
    run.train(until=before + steps)
    found: dict[str, float] = defaultdict(float)
    for recorder in recorders:
        found["calls"] += len(recorder.calls)
        for span in recorder.spans:
            # While a worker waits or is between two steps, the others use the device.
            if span.step >= before and span.activity.kind not in (HARNESS, WAIT):
                found[span.activity.kind] += 1e-6 * (span.end_ns - span.begin_ns)
    return {kind: total / (steps * len(recorders)) for kind, total in found.items()}


def _task(place: Place, cell: Cell, network: Network) -> Task:
    """The task of a cell with random inputs of its shape, and copies of the network."""
    per_step = cell.workers * cell.recipe.batch_per_worker(cell.workers)
    rows = torch.arange(_STEPS * per_step) % per_step
    inputs = torch.randint(64, (per_step, *network.shape), dtype=torch.uint8)
    shape = network.shape if network.of_text else ()
    labels = torch.randint(10, (per_step, *shape))[rows]
    data = data_of(cell, Rows(inputs, rows), labels, test=inputs[:1], mean=32.0, std=18.5)
    return replace(task_with(cell, data, place.device), build_model=network.copy)
