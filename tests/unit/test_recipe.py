"""Learning rates, batches and seeds."""

import math

import pytest

from tests import small
from thinwire import seeds
from thinwire.optim.schedule import learning_rate


def rates(workers=4, steps_per_epoch=10, **changes):
    made = small.recipe(**changes)
    return [learning_rate(made, workers, s, steps_per_epoch) for s in range(made.epochs * steps_per_epoch)]


def test_the_warm_up_is_linear_and_never_zero():
    lr = rates(schedule={"name": "constant", "warmup_epochs": 1}, optimizer={"lr": 0.5})
    assert lr[:10] == pytest.approx([0.05 * (i + 1) for i in range(10)])
    assert set(lr[10:]) == {0.5}


def test_steps_drop_at_the_beginning_of_their_epoch():
    lr = rates(schedule={"name": "step", "milestones": [1, 2], "factor": 0.5}, optimizer={"lr": 8.0})
    assert (lr[9], lr[10], lr[19], lr[20]) == (8, 4, 4, 2)


def test_cosine_falls_from_the_peak_towards_zero():
    lr = rates(schedule={"name": "cosine", "warmup_epochs": 1}, optimizer={"lr": 1.0})
    assert lr[10] == 1.0
    assert lr[20] == pytest.approx(0.5)
    assert lr[-1] == pytest.approx((1 + math.cos(math.pi * 19 / 20)) / 2)
    assert all(rate > 0 for rate in lr)


def test_exponential_falls_once_an_epoch():
    lr = rates(schedule={"name": "exponential", "factor": 0.5}, optimizer={"lr": 8.0})
    assert lr == [8.0] * 10 + [4.0] * 10 + [2.0] * 10


def test_the_rate_is_scaled_to_the_batch():
    optimizer = {"lr": 0.1, "lr_reference_batch": 256}
    constant = {"name": "constant"}
    per_worker = {"batch": 64, "batch_per": "worker", "optimizer": optimizer, "schedule": constant}
    assert rates(workers=8, **per_worker)[0] == pytest.approx(0.2)
    per_run = per_worker | {"batch_per": "run"}
    assert rates(workers=8, **per_run)[0] == pytest.approx(0.025)


def test_streams_differ_in_every_part_of_their_name():
    names = [("a", 1), ("a", "1"), ("a1",), ("a", 1, 0), ("b", 1)]
    assert len({seeds.derive(*name) for name in names}) == len(names)
    assert len({seeds.at_step(seed, step) for seed in range(30) for step in range(30)}) == 900
    assert all(0 <= seeds.derive("x", i) < 2**63 for i in range(100))
