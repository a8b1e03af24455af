"""Top-k: the codec loses nothing and picks the largest; the method sends what the formula says."""

import math

import pytest
import torch

from tests import small
from thinwire.codecs import top_k


def tensors(seed=0):
    generator = torch.Generator().manual_seed(seed)
    shapes = [(3, 1, 3, 3), (7,), (10, 27), (1,)]
    return [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]


@pytest.mark.parametrize("density", [1e-6, 0.01, 0.1, 0.5, 1.0])
def test_what_is_taken_and_what_stays_are_what_was_there(density):
    here, before = tensors(), tensors()
    taken = top_k.take(here, density)
    dense = top_k.mean([taken], like=before)
    for kept, sent, whole in zip(here, dense, before):
        assert torch.equal(kept + sent, whole)
        assert int((sent != 0).sum()) == top_k.count(density, whole.numel())


def test_the_largest_of_each_tensor_are_taken():
    here, before = tensors(), tensors()
    top_k.take(here, 0.2)
    for kept, whole in zip(here, before):
        gone = whole[kept == 0].abs()
        assert gone.min() >= kept.abs().max()


@pytest.mark.parametrize(
    ("density", "numel", "expected"),
    [
        (0.07, 100, 7),
        (0.01, 1000, 10),
        (0.01, 1001, 11),
        (0.001, 5, 1),
        (1.0, 9, 9),
        (0.29, 100, 29),
    ],
)
def test_the_share_is_rounded_up(density, numel, expected):
    assert top_k.count(density, numel) == expected


def test_tensors_of_equal_entries_and_of_zeros_send_exactly_k():
    here = [torch.ones(100), torch.zeros(100)]
    taken = top_k.take(here, 0.05)
    assert len(taken["values"]) == len(set(taken["indices"].tolist())) == 10


def test_the_mean_counts_what_was_not_sent_as_zero():
    payloads = [
        {"values": torch.tensor([4.0, 2.0]), "indices": torch.tensor([0, 2], dtype=torch.int32)},
        {"values": torch.tensor([6.0]), "indices": torch.tensor([2], dtype=torch.int32)},
    ]
    first, second = top_k.mean(payloads, like=[torch.zeros(2), torch.zeros(1, 1)])
    assert torch.equal(first, torch.tensor([2.0, 0.0]))
    assert torch.equal(second, torch.tensor([[4.0]]))


def run_and_record(memory, density=0.05):
    """What every worker accumulated, sent and still owes over a run."""
    run = small.trainer(small.task(3), "top_k", density=density, memory=memory)
    accumulated = [0.0] * 3
    sent = [0.0] * 3

    def flat(parts):
        return torch.cat([part.flatten() for part in parts])

    for rank, worker in enumerate(run.workers):
        gather = worker.run.world.gather

        def weighed(payload, rank=rank, worker=worker, gather=gather):
            sent[rank] = sent[rank] + flat(top_k.mean([payload], like=worker.run.weights))
            scale = worker.run.lr if memory == "update" else 1.0
            accumulated[rank] = accumulated[rank] + scale * flat(worker.run.gradients)
            return gather(payload)

        worker.run.world.gather = weighed
    run.train()
    kept = [flat(worker.method.memory["residual"]) for worker in run.workers]
    return accumulated, sent, kept


@pytest.mark.parametrize("memory", ["gradient", "update"])
def test_over_a_run_what_was_sent_and_what_is_owed_is_what_was_accumulated(memory):
    for accumulated, sent, kept in zip(*run_and_record(memory)):
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


def test_replicas_stay_equal_bit_for_bit():
    run = small.trainer(small.task(4), "top_k")
    run.train()
    for worker in run.workers[1:]:
        for mine, first in zip(worker.run.weights, run.workers[0].run.weights):
            assert torch.equal(mine, first)
