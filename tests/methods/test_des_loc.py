"""DES-LOC: bytes are the formula, with the moments that an optimizer has."""

import pytest
import torch

from tests import small

ADAMW = {"name": "adamw", "lr": 0.01, "beta1": 0.8, "beta2": 0.9}


@pytest.mark.parametrize(
    ("optimizer", "means"),
    [
        (ADAMW, 5 + 3),
        ({"name": "sgd", "lr": 0.05, "momentum": 0.9}, 5),
        ({"name": "sgd", "lr": 0.05, "momentum": 0.0}, 0),
    ],
)
def test_bytes_are_the_formula(optimizer, means):
    """In 15 steps, weights after steps 4, 8, 12 and at the end; the first moment 5 times, the second 3."""
    task = small.task(6, 2, dtype=torch.float32, optimizer=optimizer)
    run = small.trainer(task, "des_loc", period=4, first_period=3, second_period=5)
    run.train()
    size = 4 * sum(weight.numel() for weight in run.workers[0].run.weights)
    for worker in run.workers:
        total = worker.ledger.total()
        assert total.payload_push == total.payload_pull == (4 + means) * size
        assert total.wire_sent == pytest.approx(2 * 5 / 6 * (4 + means) * size, abs=100)
