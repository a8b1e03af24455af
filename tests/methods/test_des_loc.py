"""DES-LOC: each moment is averaged at its period and at no other time; what its limit is; bytes."""

import pytest
import torch

from tests import small

ADAMW = {"name": "adamw", "lr": 0.01, "beta1": 0.8, "beta2": 0.9}
EVERY_STEP = {"period": 1, "first_period": 1, "second_period": 1}


def moments(run, name):
    """Of each worker, its moments of this name as one vector."""
    states = [(worker.run.optimizer.state, worker.run.params) for worker in run.workers]
    return [small.flat(state[param.tensor][name] for param in params) for state, params in states]


def task(workers=3, nodes=1, dtype=torch.float64, **optimizer):
    return small.task(workers, nodes, dtype=dtype, build_model=small.Plain, optimizer=ADAMW | optimizer)


def test_weights_and_moments_are_equal_after_their_periods_and_at_no_other_time():
    run = small.trainer(task(), "des_loc", period=2, first_period=3, second_period=5)
    periods = {"exp_avg": 3, "exp_avg_sq": 5}

    def look(run):
        found = {name: moments(run, name) for name in periods}
        found["weights"] = [small.flat(worker.run.weights) for worker in run.workers]
        for name, vectors in found.items():
            equal = all(torch.equal(vectors[0], other) for other in vectors)
            assert equal == (run.step % (periods | {"weights": 2})[name] == 0), (name, run.step)

    run.train(until=14, after_step=look)


@pytest.mark.parametrize("name", ["exp_avg", "exp_avg_sq"])
def test_what_is_averaged_are_the_moments_of_the_workers(name):
    options = {"period": 100, "first_period": 100, "second_period": 100}
    local = small.trainer(task(), "des_loc", **options)
    options["first_period" if name == "exp_avg" else "second_period"] = 4
    run = small.trainer(task(), "des_loc", **options)
    for each in (local, run):
        each.train(until=4)
    expected = sum(moments(local, name)) / 3
    for own in moments(run, name):
        torch.testing.assert_close(own, expected, rtol=0, atol=1e-15)
    other = {"exp_avg": "exp_avg_sq", "exp_avg_sq": "exp_avg"}[name]
    assert all(torch.equal(*pair) for pair in zip(moments(run, other), moments(local, other)))


def test_with_all_periods_one_the_second_moment_has_the_variance_of_the_gradients_beside_dense_adams():
    """After the first step, from equal weights. The first moment is dense Adam's."""
    run, dense = small.trainer(task(), "des_loc", **EVERY_STEP), small.trainer(task(), "ssgd")
    gradients = []
    for worker in run.workers:
        sync = worker.method.sync_gradients

        def noting(worker=worker, sync=sync):
            gradients.append(small.flat(worker.run.gradients).clone())
            sync()

        worker.method.sync_gradients = noting
    for each in (run, dense):
        each.train(until=1)
    variance = torch.stack(gradients).var(0, correction=0)
    first, second = ([moments(each, name)[0] for each in (run, dense)] for name in ("exp_avg", "exp_avg_sq"))
    torch.testing.assert_close(first[0], first[1], rtol=0, atol=1e-14)
    torch.testing.assert_close(second[0] - second[1], (1 - 0.9) * variance, rtol=0, atol=1e-14)
    weights = [small.flat(each.workers[0].run.weights) for each in (run, dense)]
    assert not torch.allclose(*weights, rtol=0, atol=1e-4)


@pytest.mark.parametrize(("second_period", "jumps"), [(6, True), (2, False), (4, False)])
def test_a_weight_jumps_where_the_first_moment_is_averaged_without_the_second(second_period, jumps):
    """Small batches leave entries behind dead units with gradients of 0 on one worker and not on another."""
    run = small.trainer(task(4), "des_loc", period=3, first_period=4, second_period=second_period)
    run.train()
    largest = float(small.flat(run.shipped()[0]).abs().max())
    assert (largest > 1000) == jumps
    assert (largest < 1) != jumps


@pytest.mark.parametrize("name", ["adam", "adamw", "muon"])
def test_one_worker_has_the_dense_optimizer(name):
    alone = task(1, name=name)
    run, dense = small.trainer(alone, "des_loc", **EVERY_STEP), small.trainer(alone, "ssgd")
    for each in (run, dense):
        each.train()
    assert small.digest(run.workers[0].run.weights) == small.digest(dense.workers[0].run.weights)


def test_muons_momentum_is_a_first_moment_like_adams():
    run = small.trainer(task(2, name="muon"), "des_loc", period=100, first_period=3, second_period=100)
    run.train(until=3)
    first, second = (worker.run.optimizer.state for worker in run.workers)
    for own, other in zip(first.values(), second.values()):
        for name in own.keys() & {"momentum_buffer", "exp_avg"}:
            assert torch.equal(own[name], other[name])
        if "exp_avg_sq" in own:
            assert not torch.equal(own["exp_avg_sq"], other["exp_avg_sq"])


@pytest.mark.parametrize(
    ("optimizer", "means"),
    [
        (ADAMW, 5 + 3),
        ({"name": "sgd", "lr": 0.05, "momentum": 0.9}, 5),
        ({"name": "sgd", "lr": 0.05, "momentum": 0.0}, 0),
    ],
)
def test_bytes_are_the_formula(optimizer, means):
    """In 15 steps, weights after steps 4, 8, 12 and at the end; the first moment 5 times, the second 3."""
    task = small.task(6, 2, dtype=torch.float32, optimizer=optimizer)
    run = small.trainer(task, "des_loc", period=4, first_period=3, second_period=5)
    run.train()
    size = 4 * sum(weight.numel() for weight in run.workers[0].run.weights)
    for worker in run.workers:
        total = worker.ledger.total()
        assert total.payload_push == total.payload_pull == (4 + means) * size
        assert total.wire_sent == pytest.approx(2 * 5 / 6 * (4 + means) * size, abs=100)
