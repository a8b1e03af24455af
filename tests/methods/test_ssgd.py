"""SSGD: what it sends. Methods that take its one step for all workers keep their replicas equal."""

import pytest
import torch

from tests import small
from thinwire import plugins
from thinwire.base.options import resolve
from thinwire.simulation.mirrored import MirroredTrainer
from thinwire.simulation.program import Compute, Post, Wait, steps_of
from thinwire.trace.recorder import BACKWARD
from thinwire.train.tracing import record_spans
from thinwire.transport.mirror import Mirror


def test_the_size_of_buckets_changes_no_bit_and_no_byte():
    runs = [small.trainer(small.task(3), "ssgd", bucket_mb=cap) for cap in (1e-6, 0.001, 25.0)]
    for run in runs:
        run.train()
    for run in runs[1:]:
        assert all(torch.equal(a, b) for a, b in zip(run.shipped()[0], runs[0].shipped()[0]))
        assert run.workers[0].ledger.total().payload_push == (runs[0].workers[0].ledger.total().payload_push)


def test_a_16_bit_mean_does_not_overflow_where_it_can_be_written_down():
    run = small.trainer(small.task(4, dtype=torch.float32), "ssgd", gradients="float16")
    for worker in run.workers:
        worker.compute_gradients = lambda images, labels, run=worker.run: large(run)
    run.train(until=1)
    assert {float(gradient.flatten()[0]) for gradient in run.workers[0].run.gradients} == {40_000.0}


def large(run):
    run.loss = torch.zeros(())
    for param in run.params:
        param.tensor.grad = torch.full_like(param.tensor, 40_000.0)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_16_bit_gradients_cost_half_and_are_rounded_once_sent(dtype):
    half, full = (
        small.trainer(small.task(2, dtype=torch.float32), "ssgd", gradients=dtype),
        small.trainer(small.task(2, dtype=torch.float32), "ssgd"),
    )
    for run in (half, full):
        run.train(until=1)
    assert 2 * half.workers[0].ledger.total().payload_push == full.workers[0].ledger.total().payload_push
    rounded = getattr(torch, dtype)
    for gradient, exact in zip(half.workers[0].run.gradients, full.workers[0].run.gradients):
        assert torch.equal(gradient, gradient.to(rounded).float())
        assert not torch.equal(gradient, exact)
        torch.testing.assert_close(gradient, exact, rtol=0.02, atol=1e-3)
    assert {weight.dtype for weight in half.workers[0].run.weights} == {torch.float32}


@pytest.mark.parametrize("gradients", ["full", "bfloat16"])
def test_without_overlap_every_bit_and_every_byte_stay(gradients):
    task, options = small.task(4, 2, dtype=torch.float32), {"bucket_mb": 0.001, "gradients": gradients}
    overlapping, after = (small.trainer(task, "ssgd", overlap=on, **options) for on in (True, False))
    for step in range(1, after.total_steps + 1):
        overlapping.train(until=step)
        after.train(until=step)
        assert small.digest(after.shipped()[0]) == small.digest(overlapping.shipped()[0])
    for worker, other in zip(after.workers, overlapping.workers):
        assert worker.ledger.state() == other.ledger.state()


@pytest.mark.parametrize("overlap", [True, False])
def test_buckets_are_sent_during_the_backward_pass_or_all_of_them_after_it(overlap):
    method = plugins.get("method", "ssgd").load()
    config = resolve(method, {"bucket_mb": 1e-6, "overlap": overlap})
    # A mirrored worker overlaps as one in a process of its own does; workers that share a process cannot.
    run = MirroredTrainer(small.task(4), method, config, Mirror(4, 0))
    run.setup(None)
    (recorder,) = record_spans(run)
    run.train(until=1)
    (step,) = steps_of(recorder)
    sent = [place for place, operation in enumerate(step) if isinstance(operation, Post)]
    waited = [place for place, operation in enumerate(step) if isinstance(operation, Wait)]
    backward = [n for n, o in enumerate(step) if isinstance(o, Compute) and o.kind == BACKWARD]
    assert len(sent) == len(waited) == len(run.workers[0].run.params)
    assert max(sent) < min(waited)
    assert (min(sent) < max(backward)) == overlap


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("dgc", (4, 1)),
        ("gossip", (6, 2)),
        ("hsgd", (6, 3)),
        ("quantised_all_reduce", (6, 2)),
        ("top_k", (4, 1)),
    ],
)
def test_replicas_stay_equal_bit_for_bit(name, place):
    task = small.task(*place, dtype=torch.float32)
    run = small.trainer(task, name, **plugins.get("method", name).load().short)
    run.train()
    assert len({small.digest(worker.run.weights) for worker in run.workers}) == 1
