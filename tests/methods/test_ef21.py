"""EF21: what is sent is the formula."""

import math

import pytest
import torch

from tests import small


def test_bytes_are_those_of_top_k_and_of_one_dense_mean():
    """4 n in the first step; then k = sum ceil(density n) entries of 4 + 4 bytes."""
    run = small.trainer(small.task(6, 2, dtype=torch.float32), "ef21", density=0.03)
    run.train()
    sizes = [weight.numel() for weight in run.workers[0].run.weights]
    dense, sparse = 4 * sum(sizes), 8 * sum(math.ceil(0.03 * n) for n in sizes)
    steps = run.total_steps - 1
    for worker in run.workers:
        total = worker.ledger.total()
        assert total.payload_push == dense + steps * sparse
        assert total.payload_pull == dense + steps * 5 * sparse
        assert total.wire_sent == pytest.approx(2 * 5 / 6 * dense + steps * 5 * sparse, abs=4)
