"""Exchanges of status come about once a second, agreed by all workers, and are no training."""

from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch

import thinwire
from tests import small
from thinwire.train import clock
from thinwire.train.status import MOST_STEPS_BETWEEN, StatusExchange


class OneOfTwo:
    """The transport of the first of two processes; the other one is slower by a factor."""

    ranks = (0,)

    def __init__(self, slower=1.0, other_travels=False, other_stops=0):
        self.slower, self.other = slower, {"travels": other_travels, "stop": other_stops}

    def share(self, own):
        other = {**self.other, "step_seconds": own[0]["step_seconds"] * self.slower}
        return [*own, {**own[0], **other}]

    def check_agreement(self):
        pass

    def travels(self):
        return False


def status_of_one(transport):
    return StatusExchange(
        [SimpleNamespace(run=SimpleNamespace(loss=torch.ones(())), epoch_loss=0)], transport
    )


def steps_of_exchanges(transport, seconds, steps):
    """The steps after which the status is exchanged, where a step takes so many seconds."""
    status = status_of_one(transport)
    found = []
    for step in range(1, steps + 1):
        status.add(step)
        if status.is_time():
            status.exchange(step * seconds)
            found.append(step)
    return found


@pytest.mark.parametrize(
    ("seconds", "slower", "apart"),
    [(0.005, 1, 200), (0.005, 4, 50), (0.3, 1, 3), (7.0, 1, 1), (1e-5, 1, MOST_STEPS_BETWEEN)],
)
def test_a_status_is_exchanged_about_once_a_second_whatever_a_step_takes(seconds, slower, apart):
    """The slowest worker decides. At the start the steps between two exchanges at most double."""
    exchanges = steps_of_exchanges(OneOfTwo(slower), seconds, 12 * apart)
    assert len(exchanges) > 3
    assert all(after <= 2 * before + 1 for before, after in pairwise(exchanges))
    assert exchanges[-1] - exchanges[-2] == pytest.approx(apart, abs=1)


@pytest.mark.parametrize("travels", [False, True])
def test_all_workers_know_that_messages_of_another_one_travel(travels):
    status = status_of_one(OneOfTwo(other_travels=travels))
    status.add(1)
    assert status.exchange(1.0) == travels


@pytest.mark.parametrize(("here", "there", "stop"), [(0, 0, 0), (0, 15, 15), (15, 0, 15)])
def test_all_workers_stop_if_one_of_them_was_asked_to(here, there, stop):
    status = status_of_one(OneOfTwo(other_stops=there))
    status.asked_to_stop = here
    status.add(1)
    status.exchange(1.0)
    assert status.stop == stop


class TenMilliseconds(thinwire.Method):
    """One worker, whose step takes 10 ms."""

    def sync_gradients(self):
        self.time.now += 0.010


@pytest.mark.parametrize("travels", [False, True])
def test_the_time_of_an_exchange_is_booked_as_training_only_if_messages_travel(monkeypatch, travels):
    time, exchanges = SimpleNamespace(now=0.0, perf_counter=lambda: time.now), []
    monkeypatch.setattr(clock, "time", time)
    monkeypatch.setattr(TenMilliseconds, "time", time, raising=False)
    run = small.trainer(small.task(1, epochs=2), TenMilliseconds)
    monkeypatch.setattr(run.transport, "travels", lambda: travels)
    exchange = run.status.exchange

    def slow_exchange(train_seconds):
        exchanges.append(run.step)
        time.now += 5.0
        return exchange(train_seconds)

    monkeypatch.setattr(run.status, "exchange", slow_exchange)
    run.train()
    assert len(exchanges) > 3
    assert run.clock.read() == pytest.approx(
        {
            "train": 0.010 * run.total_steps + 5 * len(exchanges) * travels,
            "eval": 0,
            "harness": 5 * len(exchanges) * (not travels),
        }
    )
