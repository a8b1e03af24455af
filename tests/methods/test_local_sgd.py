"""Local SGD: when it averages, what it keeps, what it sends."""

import pytest
import torch

from tests import small
from thinwire.train import batch_norm_buffers


def test_bytes_are_those_of_ssgd_over_h():
    run = small.trainer(small.task(4, dtype=torch.float32), "local_sgd", period=5)
    run.train()
    size = 4 * sum(weight.numel() for weight in run.workers[0].run.weights)
    total = run.workers[0].ledger.total()
    assert total.payload_push == total.payload_pull == size * 15 // 5
    assert sum(w.ledger.total().wire_sent for w in run.workers) == 2 * 3 * size * 3


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


def test_batch_norm_statistics_stay_local():
    run = small.trainer(small.task(2), "local_sgd", period=1)
    run.train()
    first, second = (batch_norm_buffers.tensors(worker.model)[0] for worker in run.workers)
    assert not torch.equal(first, second)


def periods(losses, lrs=None, first=(1.0, 0.1), **options):
    """The periods of AdaComm after epochs with these losses and rates, from `first` loss and rate on."""
    run = small.trainer(small.task(1), "local_sgd", adaptive=True, **options).workers[0]
    run.begin(0, first[1], 1, 1)
    run.run.loss, run.run.lr = torch.tensor(first[0], dtype=torch.float64), first[1]
    run.method.sync_gradients()
    found = []
    for loss, lr in zip(losses, lrs or [first[1]] * len(losses)):
        run.run.lr = lr
        run.method.epoch_end(loss)
        found.append(run.method.memory["period"])
    return found


def test_adacomm_follows_the_root_of_the_loss_or_halves_the_period():
    assert periods([1.0], first=(4.0, 0.1), period=16) == [8]  # a quarter of the loss: half the period
    assert periods([1.0, 1.0, 1.0], period=10) == [5, 3, 2]
    assert periods([1.0] * 8, period=10)[-1] == 1
    assert periods([2.0], first=(4.0, 0.1), period=10) == [8]  # 7.07, rounded up


def test_adacomm_compares_with_the_loss_before_the_first_step():
    """The first epoch has brought it from 4 to 1 on the mean: that shortens the period at once."""
    assert periods([1.0, 0.25], first=(4.0, 0.1), period=16) == [8, 4]


def test_adacomms_first_loss_is_that_of_all_first_batches_at_the_initial_weights():
    run = small.trainer(small.task(3), "local_sgd", adaptive=True, period=4)
    losses = []
    run.train(until=1, after_step=lambda run: losses.extend(w.run.loss.item() for w in run.workers))
    run.train(until=3)
    for worker in run.workers:
        assert worker.method.memory["first_loss"] == pytest.approx(sum(losses) / 3, rel=1e-6)


def test_after_a_switch_adacomm_starts_there():
    run = small.trainer(small.task(3), "local_sgd", adaptive=True, period=4, switch_epoch=1)
    run.train(until=5)
    assert "first_loss" not in run.workers[0].method.memory
    losses = []
    run.train(until=6, after_step=lambda run: losses.extend(w.run.loss.item() for w in run.workers))
    assert run.workers[0].method.memory["first_loss"] == pytest.approx(sum(losses) / 3, rel=1e-6)


def test_noting_the_first_loss_leaves_the_losses_of_the_workers_alone():
    """They are one for each worker; those that the workers exchange are copies."""
    task = small.task(3, dtype=torch.float32)
    adaptive, plain = (small.trainer(task, "local_sgd", **o) for o in ({"adaptive": True}, {}))
    for run in (adaptive, plain):
        run.train(until=1)
    assert [w.run.loss.item() for w in adaptive.workers] == [w.run.loss.item() for w in plain.workers]


def test_adacomm_lengthens_with_a_falling_rate_up_to_its_limit():
    first = (1.0, 0.4)
    assert periods([1.0], [0.1], first, period=8, max_period=100) == [16]
    assert periods([1.0], [0.1], first, period=8, max_period=12) == [12]
    assert periods([1.0], [0.1], first, period=8, max_period=2) == [2]


def test_adacomm_does_not_shorten_the_period_because_of_a_warm_up():
    assert periods([0.99, 0.98], [0.06, 0.1], (1.0, 0.02), period=16)[:1] == [8]  # by halving only
    assert periods([1.0], [0.1], (4.0, 0.02), period=16) == [8]


def test_adacomm_keeps_the_period_if_the_loss_is_not_usable():
    assert periods([float("nan"), 0.0], period=8) == [8, 8]
    assert periods([1.0, 0.5], first=(float("nan"), 0.1), period=8) == [8, 8]


def test_adacomm_is_the_same_on_all_workers_and_sends_less_when_the_period_is_longer():
    run = small.trainer(small.task(3), "local_sgd", adaptive=True, period=4)
    run.train()
    assert len({worker.method.memory["period"] for worker in run.workers}) == 1
    # The loss at the start, and those of three epochs.
    assert run.workers[0].ledger.rows["world", "mean", "control"].payload_push == 4 * (1 + 3)
