"""Top-k: what is sent is what the formula says, also of random entries."""

import math

import torch

from tests import small


def test_bytes_are_the_formula():
    """k = sum ceil(density n) entries of 4 + 4 bytes; a worker receives those of the W - 1 others."""
    run = small.trainer(small.task(6, 2, dtype=torch.float32), "top_k", density=0.03)
    run.train()
    k = sum(math.ceil(0.03 * weight.numel()) for weight in run.workers[0].run.weights)
    for worker in run.workers:
        total = worker.ledger.total()
        assert total.payload_push == run.total_steps * 8 * k
        assert total.payload_pull == total.wire_sent == run.total_steps * 5 * 8 * k
    crossing = [worker.ledger.total().between_nodes for worker in run.workers]
    assert crossing == [0, 0, run.total_steps * 5 * 8 * k] * 2


def test_random_entries_cost_as_much_as_the_largest_and_are_others():
    runs = [small.trainer(small.task(3), "top_k", selection=how) for how in ("exact", "random")]
    for run in runs:
        run.train()
    first, second = (run.workers[0].ledger.total().payload_push for run in runs)
    assert first == second
    assert not torch.equal(runs[0].shipped()[0][0], runs[1].shipped()[0][0])
