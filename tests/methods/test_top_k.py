"""Top-k: over a run nothing is lost, and what is sent is what the formula says."""

import math

import pytest
import torch

from tests import small
from thinwire.codecs import sparse


def run_and_record(memory, **options):
    """What every worker accumulated, sent and still owes over a run."""
    run = small.trainer(small.task(3), "top_k", density=0.05, memory=memory, **options)
    encoding = run.workers[0].method.config.indices
    accumulated = [0.0] * 3
    sent = [0.0] * 3

    def flat(parts):
        return torch.cat([part.flatten() for part in parts])

    for rank, worker in enumerate(run.workers):
        gather = worker.run.world.gather

        def weighed(payload, ragged, rank=rank, worker=worker, gather=gather):
            sent[rank] = sent[rank] + flat(sparse.mean([payload], worker.run.weights, encoding))
            scale = worker.run.lr if memory == "update" else 1.0
            accumulated[rank] = accumulated[rank] + scale * flat(worker.run.gradients)
            return gather(payload, ragged)

        worker.run.world.gather = weighed
    run.train()
    kept = [flat(worker.method.memory["residual"]) for worker in run.workers]
    return accumulated, sent, kept


@pytest.mark.parametrize("memory", ["gradient", "update"])
@pytest.mark.parametrize("selection", ["exact", "sampled", "random"])
@pytest.mark.parametrize("indices", ["int32", "bitmap", "run_length"])
def test_over_a_run_sent_values_and_residuals_sum_to_what_was_accumulated(memory, selection, indices):
    for accumulated, sent, kept in zip(*run_and_record(memory, selection=selection, indices=indices)):
        torch.testing.assert_close(sent + kept, accumulated, rtol=0, atol=1e-12)
        assert kept.any()


def test_without_memory_something_is_lost():
    for accumulated, sent, kept in zip(*run_and_record("none")):
        assert not kept.any()
        assert float((sent + kept - accumulated).abs().max()) > 1e-3


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
