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


@pytest.mark.parametrize("policy", ["keep", "reset"])
def test_adams_momentum_after_an_average(policy):
    """Its mean gradient is its momentum; what it knows of the squares stays."""
    task = small.task(2, optimizer={"name": "adam", "lr": 0.01})
    run = small.trainer(task, "local_sgd", period=3, momentum=policy)
    run.train(until=3)
    for worker in run.workers:
        for state in worker.run.optimizer.state.values():
            assert bool(state["exp_avg"].any()) == (policy == "keep")
            assert bool(state["exp_avg_sq"].any())


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


def periods(losses, lrs=None, **options):
    """The periods of AdaComm after epochs with these losses and learning rates."""
    run = small.trainer(small.task(1), "local_sgd", adaptive=True, **options).workers[0]
    found = []
    for loss, lr in zip(losses, lrs or [0.1] * len(losses)):
        run.run.lr = lr
        run.method.epoch_end(loss)
        found.append(run.method.memory["period"])
    return found


def test_adacomm_follows_the_root_of_the_loss_and_halves_where_that_does_not_shorten():
    assert periods([4.0, 1.0], period=16) == [16, 8]  # a quarter of the loss: half the period
    assert periods([1.0, 1.0, 1.0, 1.0], period=10) == [10, 5, 3, 2]
    assert periods([1.0] * 9, period=10)[-1] == 1
    assert periods([4.0, 2.0], period=10) == [10, 8]  # 7.07, rounded up


def test_adacomm_lengthens_with_a_falling_rate_up_to_its_limit():
    assert periods([1.0, 1.0], [0.4, 0.1], period=8, max_period=100) == [8, 16]
    assert periods([1.0, 1.0], [0.4, 0.1], period=8, max_period=12) == [8, 12]
    assert max(periods([1.0, 0.9], period=8, max_period=2)) == 2


def test_adacomm_takes_no_warm_up_of_the_rate_for_a_reason_to_shorten():
    assert periods([1.0, 0.99, 0.98], [0.02, 0.06, 0.1], period=16)[:2] == [16, 8]  # by halving only
    assert periods([4.0, 1.0], [0.02, 0.1], period=16) == [16, 8]


def test_a_switch_after_the_end_is_skipped_with_its_reason():
    assert "epoch 3 of a run of 3" in small.trainer(small.task(2), "local_sgd", switch_epoch=3).skip()
    assert small.trainer(small.task(2), "local_sgd", switch_epoch=2).skip() is None


def test_adacomm_keeps_the_period_where_the_loss_says_nothing():
    assert periods([1.0, float("nan"), 0.0], period=8) == [8, 8, 8]


def test_adacomm_is_the_same_on_all_workers_and_sends_less_when_the_period_is_longer():
    run = small.trainer(small.task(3), "local_sgd", adaptive=True, period=4)
    run.train()
    assert len({worker.method.memory["period"] for worker in run.workers}) == 1
    assert run.workers[0].ledger.rows["world", "mean", "control"].payload_push == 4 * 3
