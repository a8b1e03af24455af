"""Every method against an independent slow reference in float64, step by step.

The references in tests/reference were written from the specifications by somebody who had not seen the
modules: numpy, one process, loops over workers.
"""

import pytest
import torch
from torch import nn

from tests import small
from tests.reference import local_sgd, ssgd, top_k
from thinwire.optim.schedule import learning_rate
from thinwire.train.task import initial_model

STEPS = 36
REFERENCES = [
    ("ssgd", ssgd, {}),
    ("local_sgd", local_sgd, {"period": 1}),
    ("local_sgd", local_sgd, {"period": 5}),
    ("local_sgd", local_sgd, {"period": 4, "momentum": "reset"}),
    ("local_sgd", local_sgd, {"period": 7, "switch_epoch": 1}),
    ("top_k", top_k, {"density": 0.03}),
    ("top_k", top_k, {"density": 0.1, "memory": "update"}),
    ("top_k", top_k, {"density": 0.1, "memory": "none"}),
]


def build():
    """Batch norm is in it, dropout is not: a reference has no random stream."""
    return small.Net(dropout=0.0)


@pytest.mark.parametrize(("workers", "nodes"), [(1, 1), (2, 1), (4, 2), (8, 1), (8, 4)])
@pytest.mark.parametrize(("name", "reference", "options"), REFERENCES)
@pytest.mark.parametrize("nesterov", [False, True])
def test_a_method_is_its_reference(name, reference, options, workers, nodes, nesterov):
    optimizer = {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.01, "nesterov": nesterov}
    task = small.task(
        workers,
        nodes,
        build_model=build,
        batch=16,
        epochs=6,
        optimizer=optimizer,
        data=small.digits(100),
    )
    run = small.trainer(task, name, **options)
    assert run.total_steps == STEPS

    model = initial_model(task)
    names = [name for name, _ in model.named_parameters()]

    def gradient(worker, step, weights):
        values = [torch.from_numpy(w.copy()).requires_grad_() for w in weights]
        images, labels = run.batches.at(step)[worker]
        logits = torch.func.functional_call(model, dict(zip(names, values)), (images,))
        nn.functional.cross_entropy(logits, labels).backward()
        return [value.grad.numpy() for value in values]

    extra = dict(options)
    if name == "local_sgd":
        extra |= {
            "steps_per_epoch": run.steps_per_epoch,
            "switch_epoch": options.get("switch_epoch", 0),
            "momentum_policy": extra.pop("momentum", "keep"),
        }
    if name == "top_k":
        extra |= {"memory": options.get("memory", "gradient")}
    trajectory = reference.train(
        [p.detach().numpy() for p in model.parameters()],
        gradient,
        workers,
        STEPS,
        lambda step: learning_rate(task.recipe, workers, step, run.steps_per_epoch),
        0.9,
        0.01,
        nesterov,
        **extra,
    )
    for step, expected in enumerate(trajectory, 1):
        run.train(until=step)
        for mine, theirs in zip(run.shipped()[0], expected):
            torch.testing.assert_close(mine, torch.from_numpy(theirs), rtol=0, atol=1e-9)
