"""Local SGD: when it averages, what it keeps, what it sends."""

import pytest
import torch

from tests import small


def distance(run):
    """How far the workers' weights are apart."""
    first, *others = (torch.cat([w.flatten() for w in worker.run.weights]) for worker in run.workers)
    return max(float((first - other).abs().max()) for other in others)


def test_averages_after_h_2h_3h_steps_and_not_between():
    run = small.trainer(small.task(3), "local_sgd", period=4)
    together = []
    for step in range(1, run.total_steps):
        run.train(until=step)
        together.append(distance(run) == 0)
    assert together == [step % 4 == 0 for step in range(1, run.total_steps)]


def test_steps_left_over_at_the_end_are_averaged_and_counted():
    run = small.trainer(small.task(3), "local_sgd", period=4)
    assert run.total_steps == 15
    run.train()
    assert distance(run) == 0
    assert run.workers[0].ledger.rows["world", "mean", "weights"].messages == 4


def test_bytes_are_those_of_ssgd_over_h():
    run = small.trainer(small.task(4, dtype=torch.float32), "local_sgd", period=5)
    run.train()
    size = 4 * sum(weight.numel() for weight in run.workers[0].run.weights)
    total = run.workers[0].ledger.total()
    assert total.payload_push == total.payload_pull == size * 15 // 5
    assert sum(w.ledger.total().wire_sent for w in run.workers) == 2 * 3 * size * 3


def test_before_the_switch_it_is_ssgd_bit_for_bit_and_then_counts_anew():
    post, ssgd = (
        small.trainer(small.task(4), "local_sgd", period=3, switch_epoch=1),
        small.trainer(small.task(4), "ssgd"),
    )
    for run in (post, ssgd):
        run.train(until=5)
    assert all(torch.equal(a, b) for a, b in zip(post.shipped()[0], ssgd.shipped()[0]))
    together = []
    for step in range(6, 12):
        post.train(until=step)
        together.append(distance(post) == 0)
    assert together == [False, False, True, False, False, True]


@pytest.mark.parametrize("policy", ["keep", "reset"])
def test_momentum_after_an_average(policy):
    run = small.trainer(small.task(2), "local_sgd", period=3, momentum=policy)
    run.train(until=3)
    for worker in run.workers:
        for state in worker.run.optimizer.state.values():
            zero = not state["momentum_buffer"].any()
            assert zero == (policy == "reset")


def test_one_worker_is_plain_sgd():
    local, ssgd = (small.trainer(small.task(1), name) for name in ("local_sgd", "ssgd"))
    for run in (local, ssgd):
        run.train()
    assert all(torch.equal(a, b) for a, b in zip(local.shipped()[0], ssgd.shipped()[0]))


def test_batch_norm_statistics_stay_local():
    run = small.trainer(small.task(2), "local_sgd", period=1)
    run.train()
    first, second = (worker.float_buffers()[0] for worker in run.workers)
    assert not torch.equal(first, second)
