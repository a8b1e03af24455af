"""Compares a method with its slow reference in float64, step by step."""

import functools

import pytest
import torch
from torch import nn

from tests import small
from tests.reference.sgd import Run
from thinwire.api.run import initial_model
from thinwire.optim.recipe import learning_rate

STEPS, STEPS_PER_EPOCH = 36, 6


def slow(*values):
    """A parameter that `make test` leaves out."""
    return pytest.param(*values, marks=pytest.mark.slow)


def build():
    """A model with batch norm, but without dropout, because a reference has no random stream."""
    return small.Net(dropout=0.0)


class Replica:
    """The gradients and losses that the engine's workers see, as functions of the weights."""

    def __init__(self, task, run):
        self.model = initial_model(task)
        self.parameters = list(self.model.parameters())
        # All workers ask for their batches of a step one after the other.
        self.batches_at = functools.lru_cache(maxsize=2)(run.batches.at)

    def forward(self, worker, step, weights):
        for parameter, weight in zip(self.parameters, weights, strict=True):
            parameter.data, parameter.grad = torch.from_numpy(weight.copy()), None
        images, labels = self.batches_at(step)[worker]
        return nn.functional.cross_entropy(self.model(images), labels)

    def gradient(self, worker, step, weights):
        self.forward(worker, step, weights).backward()
        return [parameter.grad.numpy() for parameter in self.parameters]

    @torch.no_grad()
    def loss(self, worker, step, weights):
        return self.forward(worker, step, weights).item()


def compare(task, name, options, reference, nesterov, make_optimizer=None, **known):
    """Hold a method with its options to `reference`, which knows what decides the result."""
    run = small.trainer(task, name, **options)
    assert (run.total_steps, run.steps_per_epoch) == (STEPS, STEPS_PER_EPOCH)
    replica = Replica(task, run)
    of_reference = Run(
        weights=[p.detach().numpy() for p in replica.parameters],
        gradient=replica.gradient,
        loss=replica.loss,
        workers=task.cluster.workers,
        nodes=task.cluster.nodes,
        steps=STEPS,
        steps_per_epoch=STEPS_PER_EPOCH,
        learning_rate=lambda step: learning_rate(
            task.recipe, task.cluster.workers, step, run.steps_per_epoch
        ),
        momentum=0.9,
        weight_decay=0.01,
        nesterov=nesterov,
        make_optimizer=make_optimizer,
    )
    for step, expected in enumerate([*reference.train(of_reference, **known)], 1):
        run.train(until=step)
        for mine, theirs in zip(run.shipped()[0], expected):
            torch.testing.assert_close(mine, torch.from_numpy(theirs), rtol=0, atol=1e-9)


def task_of(workers, nodes, batch=16, build_model=build, **optimizer):
    """A task; a key of the optimizer that is None is left out."""
    default = {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.01}
    return small.task(
        workers,
        nodes,
        build_model=build_model,
        batch=batch,
        epochs=6,
        optimizer={k: v for k, v in (default | optimizer).items() if v is not None},
        data=small.digits(6 * batch + 4),
    )
