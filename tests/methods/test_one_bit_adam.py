"""1-bit Adam: a worker alone loses nothing, and entries without a gradient stay still."""

import torch

from tests import small

WARMUP = 5


def trainer(workers, **options):
    adamw = {"name": "adamw", "lr": 0.001, "weight_decay": 0.1, "beta2": 0.99}
    task = small.task(workers, build_model=small.Plain, optimizer=adamw)
    return small.trainer(task, "one_bit_adam", warmup_steps=WARMUP, **options)


def test_an_entry_without_a_gradient_in_the_warm_up_only_decays_after_it():
    run = trainer(3)
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
