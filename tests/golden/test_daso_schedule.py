"""DASO's schedule equals its reference's on random loss curves: the states, who sends when, and what merges.

The method is driven through its hooks only, on a model of two numbers with random gradients, so that a curve
takes milliseconds. The test passes it the epochs' losses.
"""

import random
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from tests import small
from tests.reference import daso, daso_schedule
from tests.reference.sgd import Run
from thinwire import plugins
from thinwire.base.options import resolve
from thinwire.train.worker import Worker
from thinwire.transport.inprocess import InProcess

NODES, PLACES = 2, 2
WORKERS = NODES * PLACES
LR, MOMENTUM = 0.1, 0.9
CURVES, CURVES_OF_FIXED = 50, 20
TOLERANCE = 1e-9  # of weights of about 1, in double precision


class Case(NamedTuple):
    """A loss curve, and the run that has it."""

    losses: list[float]
    steps_per_epoch: int
    options: dict[str, object]

    @property
    def steps(self) -> int:
        return len(self.losses) * self.steps_per_epoch


def curve(chance: random.Random, epochs: int) -> list[float]:
    """A curve that falls, stays and rises, in 32 bits, in which the engine averages losses."""
    kind = chance.choice(["wanders", "falls", "jumps", "is below zero"])
    loss, losses = 2.5, []
    for epoch in range(epochs):
        if kind == "wanders":
            loss *= chance.choice([0.8, 0.93, 0.97, 1.0, 1.05])
        elif kind == "falls":
            loss = 2.5 * 0.9**epoch + chance.uniform(0, 0.4)
        elif kind == "is below zero":
            loss = -(1.1**epoch) * chance.uniform(0.9, 1.1)
        else:
            loss = chance.uniform(0.1, 3)
        losses.append(float(np.float32(loss)))
    return losses


def case(seed: int) -> Case:
    """A case whose epochs are shorter or longer than the intervals, with all usual remainders."""
    chance = random.Random(seed)
    options = {
        "warmup_epochs": chance.randint(0, 2),
        "cooldown_epochs": chance.randint(0, 2),
        "max_skips": chance.choice([1, 2, 3, 4, 6, 8, 12, 16]),
        "plateau_threshold": chance.choice([0.05, 0.3, 0.9]),
        "patience": chance.choice([0, 0, 1, 2]),
        "control": chance.choice(["corrected", "published"]),
    }
    return Case(curve(chance, chance.randint(4, 8)), chance.randint(2, 19), options)


def fixed_case(seed: int) -> Case:
    """The same case with a fixed interval and wait."""
    chance = random.Random(f"fixed {seed}")
    skips = chance.randint(1, 8)
    fixed = {"fixed_skips": skips, "fixed_wait": chance.randint(0, skips)}
    made = case(seed)
    return made._replace(options=made.options | fixed)


class Two(nn.Module):
    """Two numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([0.5, -1.0], dtype=torch.float64))

    def forward(self, images: Tensor) -> Tensor:
        raise AssertionError("nothing is computed from images here")


def gradient(noise: np.ndarray, worker: int, step: int, weight: np.ndarray) -> np.ndarray:
    """A gradient that depends on the weights, so that a merge at another step changes the result."""
    return noise[step, worker] + 0.1 * weight


def by_the_method(case: Case, noise: np.ndarray) -> tuple[list[np.ndarray], list[list[int]]]:
    """After every step: the mean of the workers' weights, and each worker's messages to the other node."""
    method = plugins.get("method", "daso").load()
    recipe = {"optimizer": {"lr": LR, "momentum": MOMENTUM}, "schedule": {"name": "constant"}}
    task = small.task(WORKERS, NODES, epochs=len(case.losses), seed=0, **recipe)
    transport = InProcess(WORKERS)
    config = resolve(method, {**case.options, "blocking_dtype": "full"})
    workers = [
        Worker(rank, Two(), method, config, task, case.steps_per_epoch, transport) for rank in range(WORKERS)
    ]

    def together(turn):
        transport.together([lambda worker=worker: turn(worker) for worker in workers])
        transport.check_settled()

    def messages() -> list[int]:
        rows = [worker.ledger.rows.items() for worker in workers]
        return [sum(row.messages for (channel, _, _), row in of if channel == "across") for of in rows]

    means, spoke = [], []
    with torch.no_grad():
        together(Worker.setup)
        before = messages()
        for step in range(case.steps):
            for rank, worker in enumerate(workers):
                worker.begin(step, LR, 1, WORKERS)
                weight = worker.run.params[0].tensor
                weight.grad = torch.from_numpy(gradient(noise, rank, step, weight.numpy()))
            together(Worker.exchange)
            means.append(np.mean([worker.run.weights[0].numpy() for worker in workers], axis=0))
            now = messages()
            spoke.append([a - b for a, b in zip(now, before, strict=True)])
            before = now
            if (step + 1) % case.steps_per_epoch == 0:
                loss = case.losses[step // case.steps_per_epoch]
                together(lambda worker, loss=loss: worker.method.epoch_end(loss))
    return means, spoke


def test_curves_have_the_schedule_of_the_reference() -> None:
    for seed in range(CURVES):
        require_the_schedule_of_the_reference(case(seed), seed)


def test_fixed_intervals_have_the_schedule_of_the_reference() -> None:
    for seed in range(CURVES_OF_FIXED):
        require_the_schedule_of_the_reference(fixed_case(seed), seed)


def require_the_schedule_of_the_reference(run: Case, seed: int) -> None:
    noise = np.random.default_rng(seed).normal(size=(run.steps, WORKERS, 2))
    schedule = daso_schedule.schedule(run.losses, run.steps_per_epoch, PLACES, **run.options)
    of_reference = Run(
        weights=[Two().weight.detach().numpy()],
        gradient=lambda worker, step, weights: [gradient(noise, worker, step, weights[0])],
        loss=lambda worker, step, weights: run.losses[step // run.steps_per_epoch],
        workers=WORKERS,
        nodes=NODES,
        steps=run.steps,
        steps_per_epoch=run.steps_per_epoch,
        learning_rate=lambda step: LR,
        momentum=MOMENTUM,
        weight_decay=0.0,
        nesterov=False,
    )
    expected = [*daso.train(of_reference, **run.options)]
    means, spoke = by_the_method(run, noise)
    for step, (state, actions) in enumerate(schedule):
        epoch, of_epoch = divmod(step, run.steps_per_epoch)
        senders = [action.group for action in actions if action.kind == "send"]
        wanted = [int(rank % PLACES in senders) for rank in range(WORKERS)]
        apart = np.abs(means[step] - expected[step][0]).max()
        assert (spoke[step], apart < TOLERANCE) == (wanted, True), (
            f"{run}: epoch {epoch}, step {of_epoch}, (B, S) = {state}, expected {actions}; "
            f"apart by {apart:.2g}, messages of the workers {spoke[step]}"
        )
