"""Local SGD: what it keeps, and AdaComm's period; its steps are those of its references."""

import pytest
import torch

from tests import small


@pytest.mark.parametrize("name", ["adam", "adamw", "muon"])
@pytest.mark.parametrize("policy", ["keep", "reset"])
def test_adams_momentum_after_an_average(policy, name):
    """Its mean gradient is its momentum; what it knows of the squares stays. SGD has a reference."""
    task = small.task(2, optimizer={"name": name, "lr": 0.01})
    run = small.trainer(task, "local_sgd", period=3, momentum=policy)
    run.train(until=3)
    for worker in run.workers:
        for state in worker.run.optimizer.state.values():
            if name == "muon" and "momentum_buffer" in state:  # of a hidden matrix
                assert bool(state["momentum_buffer"].any()) == (policy == "keep")
                continue
            assert bool(state["exp_avg"].any()) == (policy == "keep")
            assert bool(state["exp_avg_sq"].any())


# Losses of epochs, their rates (None: as at first), the first loss and rate, options, and the periods after.
PERIODS = {
    "a quarter of the loss is half the period": ([1.0], None, (4.0, 0.1), {"period": 16}, [8]),
    "a loss that stays halves it, rounded up": ([1.0] * 4, None, (1.0, 0.1), {"period": 10}, [5, 3, 2, 1]),
    "the root is rounded up": ([2.0], None, (4.0, 0.1), {"period": 10}, [8]),
    "the first epoch already counts": ([1.0, 0.25], None, (4.0, 0.1), {"period": 16}, [8, 4]),
    "a falling rate lengthens it": ([1.0], [0.1], (1.0, 0.4), {"period": 8, "max_period": 100}, [16]),
    "up to its limit": ([1.0], [0.1], (1.0, 0.4), {"period": 8, "max_period": 12}, [12]),
    "a limit below the first period": ([1.0], [0.1], (1.0, 0.4), {"period": 8, "max_period": 2}, [2]),
    "a warm-up only halves it": ([0.99], [0.06], (1.0, 0.02), {"period": 16}, [8]),
    "a warm-up is no rise": ([1.0], [0.1], (4.0, 0.02), {"period": 16}, [8]),
    "losses that say nothing": ([float("nan"), 0.0], None, (1.0, 0.1), {"period": 8}, [8, 8]),
    "a first loss that says nothing": ([1.0, 0.5], None, (float("nan"), 0.1), {"period": 8}, [8, 8]),
}


@pytest.mark.parametrize("what", PERIODS)
def test_adacomms_period_follows_the_loss_and_the_rate(what):
    losses, lrs, (first_loss, first_lr), options, expected = PERIODS[what]
    run = small.trainer(small.task(1), "local_sgd", adaptive=True, **options).workers[0]
    run.begin(0, first_lr, 1, 1)
    run.run.loss = torch.tensor(first_loss, dtype=torch.float64)
    run.method.sync_gradients()
    found = []
    for loss, run.run.lr in zip(losses, lrs or [first_lr] * len(losses)):
        run.method.epoch_end(loss)
        found.append(run.method.memory["period"])
    assert found == expected


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


def test_adacomm_is_the_same_on_all_workers_and_sends_less_when_the_period_is_longer():
    run = small.trainer(small.task(3), "local_sgd", adaptive=True, period=4)
    run.train()
    assert len({worker.method.memory["period"] for worker in run.workers}) == 1
    # The loss at the start, and those of three epochs.
    assert run.workers[0].ledger.rows["world", "mean", "control"].payload_push == 4 * (1 + 3)
