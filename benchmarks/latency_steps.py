"""What `latency.py` compares: seconds of a step, measured, simulated, and by a formula."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import median

import numpy as np
import simulator
import torch
from calibration import Calibration, Sample, contention, costs_of_calls, simulated_on
from replay import step_seconds
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook

from thinwire import plugins
from thinwire.base.options import resolve
from thinwire.base.placement import Cluster
from thinwire.config.cell import Cell
from thinwire.config.expand import cells
from thinwire.config.hardware import ClusterDescription
from thinwire.config.yaml_file import Module
from thinwire.simulation.program import Compute, Operation, Post, Step
from thinwire.simulation.simulate import WARM_UP_STEPS, SimulatedCell
from thinwire.trace.recorder import FORWARD
from thinwire.train.cell_task import deterministic, task_of
from thinwire.train.trainer import Trainer
from thinwire.transport.processes import Processes

WORKERS, WAIT_SECONDS = 2, 0.01
REPETITIONS, FEWEST_PERIODS, FEWEST_STEPS = 3, 2, 16
# A rate, in Mbit/s, that no compared run has.
CALIBRATED_AT, CALIBRATED_WITH, CALIBRATING_STEPS = 400, ("ssgd", "local_sgd"), 35
BATCH, LEARNING_RATE = 4, 0.001
CPU = torch.device("cpu")
Key = tuple[str, int]  # a method, and how many steps are between two of its exchanges


def cell_of(method: str, period: int) -> Cell:
    """A cell of two workers on two nodes that computes as little as possible."""
    (base,) = (cell for cell in cells("validation") if (cell.method.label, cell.workers) == ("ssgd", WORKERS))
    optimizer = base.recipe.optimizer.model_copy(update={"lr": LEARNING_RATE})
    # An evaluation would be in some periods and not in others.
    update = {"batch": BATCH, "optimizer": optimizer, "evaluate_every_epochs": base.recipe.epochs}
    recipe = base.recipe.model_copy(update=update)
    given: dict[str, object] = {} if method == "ssgd" else {"period": period}
    return replace(base, method=Module(method, method, given), recipe=recipe, deviates=True)


def steps_of(period: int, warm: bool = False) -> int:
    """How many steps are measured, in whole periods; with those before them if `warm`."""
    whole = max(FEWEST_PERIODS, FEWEST_STEPS // period) * period
    return whole + max(period, WARM_UP_STEPS) * warm


def described(rate: int, round_trip_ms: int) -> ClusterDescription:
    """An emulated cluster with such links."""
    cluster = simulator.cluster(rate)
    link = cluster.link.model_copy(update={"latency_seconds": round_trip_ms / 2e3})
    return cluster.model_copy(update={"link": link})


@contextmanager
def waits() -> Iterator[None]:
    """Let every forward pass take so much longer; the model has one linear layer."""

    def wait(module: nn.Module, inputs: object, output: Tensor) -> None:
        if isinstance(module, nn.Linear):
            time.sleep(WAIT_SECONDS)

    hook = register_module_forward_hook(wait)
    yield
    hook.remove()


def measured(chosen: dict[Key, Cell], results: Path) -> dict[Key, list[float]]:
    """Seconds of a step, one for each repetition, by method and period; run by each worker."""
    deterministic(CPU)
    found: dict[Key, list[float]] = {key: [] for key in chosen}
    with waits():
        for _, (key, cell) in product(range(REPETITIONS), chosen.items()):
            found[key].append(median(period_seconds(cell, key[1], results)))
    return found


def period_seconds(cell: Cell, period: int, results: Path) -> Iterator[float]:
    """Of each period after the first: its seconds over its steps."""
    task = task_of(cell, results, CPU, verify=False)
    method = plugins.get("method", cell.method.use).load()
    transport = Processes(task.cluster, CPU)
    trainer = Trainer(task, method, resolve(method, cell.method.options), transport)
    trainer.setup()
    trainer.status.is_time = lambda: False  # type: ignore[method-assign]
    trainer.train(until=max(period, WARM_UP_STEPS))
    for _ in range(steps_of(period) // period):
        began = time.perf_counter()
        trainer.train(until=trainer.step + period)
        yield (time.perf_counter() - began) / period
    transport.close()


def simulated_cell(cell: Cell, results: Path, steps: int) -> SimulatedCell:
    """The cell, with the wait in each of its forward passes."""
    made = SimulatedCell(cell, results, Cluster(WORKERS, WORKERS), steps)
    made.steps = {worker: [with_wait(step) for step in own] for worker, own in made.steps.items()}
    return made


def with_wait(step: Step) -> Step:
    first = next(place for place, each in enumerate(step) if is_forward(each))
    return [*step[: first + 1], Compute(FORWARD, "wait", WAIT_SECONDS), *step[first + 1 :]]


def is_forward(operation: Operation) -> bool:
    return isinstance(operation, Compute) and operation.kind == FORWARD


def calibrated(results: Path) -> Calibration:
    """What the machine and the software add, from runs over links without a latency."""
    traces, made = {}, {}
    for method in CALIBRATED_WITH:
        cell = cell_of(method, 4)
        with waits():
            traces[method] = simulator.emulated(cell, CALIBRATED_AT, results)
        made[method] = simulated_cell(cell, results, CALIBRATING_STEPS)
    beside = contention([(trace, made[method].steps[0]) for method, trace in traces.items()])
    samples = [
        Sample(trace, step_seconds(trace), beside, simulator.simulation(made[method], CALIBRATED_AT))
        for method, trace in traces.items()
    ]
    costs = costs_of_calls({"mean": samples})
    print(
        f"computing beside others: {beside.typical:.3f} times as long as alone; a mean: "
        f"{costs['mean'].hand_over_seconds * 1e3:.2f} ms to hand over, "
        f"{costs['mean'].latency_seconds * 1e3:.2f} ms latency"
    )
    return Calibration(beside, costs)


def simulated_seconds(
    own: SimulatedCell, cluster: ClusterDescription, calibration: Calibration, period: int
) -> float:
    """As `measured`: the median period over its steps, without the steps before."""
    ends = simulated_on(own, cluster, calibration).end_seconds.max(axis=1)
    return float(np.median(np.diff(ends[max(period, WARM_UP_STEPS) - 1 :: period]))) / period


def formula_seconds(own: SimulatedCell, cluster: ClusterDescription, period: int) -> float:
    """Computing of one worker alone, and each period one ring at the rate and the latency of the link."""
    steps = own.steps[0][-steps_of(period) :]
    operations = [operation for step in steps for operation in step]
    computing = sum(each.seconds for each in operations if isinstance(each, Compute)) / len(steps)
    sent = sum(each.sent_bytes for each in operations if isinstance(each, Post)) / len(steps)
    link = cluster.link
    hops = 2 * (WORKERS - 1)
    return (
        computing + hops * link.latency_seconds / period + hops / WORKERS * sent / link.rate_bytes_per_second
    )
