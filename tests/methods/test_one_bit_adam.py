"""1-bit Adam: exact without a loss of bits, and still where v is zero."""

import pytest
import torch

from tests import small

WARMUP = 5


def trainer(workers=3, nodes=1, name="adamw", dtype=torch.float64, **options):
    task = small.task(
        workers,
        nodes,
        dtype=dtype,
        build_model=small.Plain,
        optimizer={"name": name, "lr": 0.001, "weight_decay": 0.1, "beta2": 0.99},
    )
    return small.trainer(task, "one_bit_adam", **{"warmup_steps": WARMUP, **options})


@pytest.mark.parametrize("name", ["adam", "adamw"])
def test_without_a_loss_of_bits_it_is_adam_with_a_frozen_variance(name):
    """Blocks of one entry are exact. The expected step is torch's, with v put back before it."""
    run, dense = trainer(name=name, block=1), trainer(name=name, warmup_steps=1000)
    for each in (run, dense):
        each.train(until=WARMUP)
    weights = [weight.clone() for weight in run.workers[0].run.weights]
    momentum = [m.clone() for m in run.workers[0].method.moments("exp_avg")]
    variance = [v.clone() for v in run.workers[0].method.moments("exp_avg_sq")]
    torch.testing.assert_close(weights, dense.workers[0].run.weights, rtol=0, atol=0)
    dense.train(until=WARMUP + 1)
    run.train(until=WARMUP + 1)
    gradients = dense.workers[0].run.gradients  # the mean
    lr = run.workers[0].run.lr
    for w, m, v, g, found in zip(weights, momentum, variance, gradients, run.workers[0].run.weights):
        decay = 0.1 if name == "adam" or w.dim() > 1 else 0.0
        if name == "adam":
            g = g + decay * w
        else:
            w = w * (1 - lr * decay)
        m = (0.9 * m + 0.1 * g) * (v > 0)
        step = m / (1 - 0.9 ** (WARMUP + 1)) / ((v / (1 - 0.99**WARMUP)).sqrt() + 1e-8)
        torch.testing.assert_close(found, w - lr * step, rtol=0, atol=1e-12)


def test_an_entry_without_a_gradient_in_the_warm_up_only_decays_after_it():
    run = trainer()
    run.train(until=WARMUP)
    for worker in run.workers:
        worker.method.moments("exp_avg_sq")[0][0] = 0
        worker.method.moments("exp_avg")[0][0] = 0
    before = run.workers[0].run.weights[0].clone()
    run.train(until=WARMUP + 1)
    after, decay = run.workers[0].run.weights[0], 1 - run.workers[0].run.lr * 0.1
    torch.testing.assert_close(after[0], before[0] * decay, rtol=1e-15, atol=0)
    assert (after[1:] != before[1:] * decay).all()


def test_a_worker_alone_loses_nothing():
    alone, exact = trainer(1), trainer(1, block=1)
    for run in (alone, exact):
        run.train()
        assert run.workers[0].method.memory == {}
    torch.testing.assert_close(alone.workers[0].run.weights, exact.workers[0].run.weights, rtol=0, atol=0)
