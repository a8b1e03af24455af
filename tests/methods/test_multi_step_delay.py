"""Multi-step delay: its slices and its interval; its steps are those of its reference."""

import queue
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace

import pytest
import torch

from methods.multi_step_delay.options import Options
from methods.multi_step_delay.sub_tensors import send
from tests import small
from thinwire.transport.call import Call, Pending
from thinwire.transport.gloo import InTurn

NAME = "multi_step_delay"
FIXED = {"warmup_steps": 0, "interval": 3, "min_interval": 3, "max_interval": 3}


def test_an_interval_that_follows_the_loss_costs_four_bytes_for_each_look():
    run = small.trainer(small.task(4, dtype=torch.float32), NAME, warmup_steps=2)
    run.train()
    control = run.workers[0].ledger.rows["world", "mean", "control"]
    assert control.payload_push == 4 * (1 + 3)  # at the end of the warm-up, and after each epoch


SLICED = [
    {"slice": 5, "credit": 5},
    {"slice": 7, "credit": 30},
    {"slice": 1000, "credit": 1},
    {"slice": 7, "credit": 30, "release": "background"},
]


@pytest.mark.parametrize("delay", [0, 1])
def test_the_size_of_slices_their_order_and_the_credit_change_no_bit_and_no_byte(delay):
    whole = small.trainer(small.task(2), NAME, warmup_steps=2, delay=delay)
    whole.train()
    for options in (*SLICED, *(sizes | {"order": "fifo"} for sizes in SLICED)):
        run = small.trainer(small.task(2), NAME, warmup_steps=2, delay=delay, **options)
        run.train()
        assert torch.equal(small.flat(run.shipped()[0]), small.flat(whole.shipped()[0]))
        assert [bytes_of(run, rank) for rank in (0, 1)] == [bytes_of(whole, rank) for rank in (0, 1)]


def bytes_of(run, rank):
    """The bytes of a worker, without the number of messages."""
    own = run.workers[rank].ledger.total()
    return own.payload_push, own.payload_pull, own.wire_sent, own.wire_received


@pytest.mark.parametrize("order", ["priority", "fifo"])
def test_slices_leave_in_their_order_within_the_credit(order, monkeypatch):
    run = small.trainer(small.task(2), NAME, **FIXED, slice=10, credit=35, order=order)
    worker = run.workers[0]
    sent, under_way, most = [], {}, []
    mean, wait = worker.run.world.mean, Pending.wait

    def watched_mean(tensors, kind="values"):
        pending = mean(tensors, kind)
        sent.append(tensors[0].numel())
        under_way[pending] = tensors[0].numel()
        most.append(sum(under_way.values()))
        return pending

    def watched_wait(pending):
        under_way.pop(pending, None)
        return wait(pending)

    monkeypatch.setattr(worker.run.world, "mean", watched_mean)
    monkeypatch.setattr(Pending, "wait", watched_wait)
    run.train(until=3)
    assert sent == [end - start for _, start, end in worker.method.slices()]
    places = [
        (param.index if order == "priority" else -param.index, start)
        for param, start, _ in worker.method.slices()
    ]
    assert places == sorted(places)
    assert 25 < max(most) <= 35


class SlowWork:
    """Of torch.distributed: it ends when the test says so."""

    def __init__(self):
        self._ended = threading.Event()
        self.end, self.is_completed, self.wait = self._ended.set, self._ended.is_set, self._ended.wait


class SlowChannel:
    """Begins each mean in its turn, as between hosts."""

    def __init__(self, holding):
        self.begun, self._turns = queue.Queue(), InTurn(holding)

    def mean(self, tensors, after=()):
        pending = Pending(self, Call("mean", tensors, after=after), lambda pending: pytest.fail("it waits"))
        self._turns.begin(pending.call, partial(self._begin, tensors[0]))
        return pending

    def _begin(self, tensor):
        work = SlowWork()
        self.begun.put((tensor.tolist(), work))
        return [work]


def test_credit_is_released_while_the_worker_goes_on():
    """The end of a round waits for no slow channel, on which slices beyond the credit are still to come."""
    options = Options(slice=2, credit=4, release="background")
    tensor = torch.arange(9.0)
    with ThreadPoolExecutor(1) as holding:
        channel = SlowChannel(holding)
        param = SimpleNamespace(tensor=tensor, index=0)
        run = SimpleNamespace(params=[param], world=channel)
        assert len(list(send(run, [tensor], options))) == 5
        (first, one), (second, two) = channel.begun.get(), channel.begun.get()
        assert channel.begun.empty()
        two.end()
        assert channel.begun.empty(), "the third slice follows the first one"
        one.end()
        (third, three), (fourth, four) = channel.begun.get(timeout=9), channel.begun.get(timeout=9)
        three.end()
        last, _ = channel.begun.get(timeout=9)
        assert [*first, *second, *third, *fourth, *last] == tensor.tolist()
        four.end()


def test_a_layer_waits_for_its_own_slices_only():
    run = small.trainer(small.task(2), NAME, **FIXED, slice=10)
    run.train(until=3)
    method = run.workers[0].method
    slices = len(list(method.slices()))
    assert len(method.flight) == slices
    first, second = method.run.params[:2]
    before = small.flat(method.memory["global"]).clone()
    method.run.step = 3
    method.forward_ready(first)
    assert len(method.flight) == slices - -(-first.tensor.numel() // 10)
    after = small.flat(method.memory["global"])
    changed = (after != before).nonzero()
    assert 0 < len(changed) <= first.tensor.numel()
    assert int(changed.max()) < first.tensor.numel()
    method.forward_ready(second)
    assert not torch.equal(small.flat(method.memory["global"]), after)


# Losses of epochs and their learning rates, the first rate, options, and the intervals after these epochs.
INTERVALS = {
    "a loss that stays": ([1.0, 1.0], [0.1, 0.1], 0.1, {"interval": 4}, [4, 4]),
    "the root of the loss": ([0.25, 0.0625, 1e-9], [0.1] * 3, 0.1, {"interval": 8}, [4, 2, 1]),
    "at most": ([100.0], [0.1], 0.1, {"interval": 4, "max_interval": 16}, [16]),
    "at least": ([1e-9], [0.1], 0.1, {"interval": 4, "min_interval": 3}, [3]),
    "a falling rate lengthens it": ([1.0], [0.025], 0.1, {"interval": 4}, [8]),
    "but only with its term": ([1.0], [0.025], 0.1, {"interval": 4, "lr_term": False}, [4]),
    "a warm-up of the rate is no rise": ([1.0] * 3, [0.05, 0.1, 0.1], 0.02, {"interval": 8}, [8, 8, 8]),
    "it shrinks": ([1.0] * 3, [0.1] * 3, 0.1, {"interval": 8, "shrink": 0.5}, [4, 2, 1]),
    "unless the rate has fallen": ([1.0], [0.05], 0.1, {"interval": 8, "shrink": 0.5}, [12]),
    "losses that say nothing": ([float("nan"), 0.0, -1.0], [0.1] * 3, 0.1, {"interval": 8}, [8, 8, 8]),
    "the mean of its epochs": (
        *([0.25, 0.75, 1.0, 1.0], [0.1] * 4, 0.1),
        *({"interval": 8, "adapt_every_epochs": 2}, [8, 6, 6, 8]),
    ),
}


@pytest.mark.parametrize("what", INTERVALS)
def test_the_interval_follows_the_loss_and_the_rate_within_its_limits(what):
    losses, lrs, first_lr, options, expected = INTERVALS[what]
    method = small.trainer(small.task(1), NAME, warmup_steps=0, **options).workers[0].method
    method.memory |= {"first_loss": 1.0, "highest_lr": first_lr, "last_lr": first_lr}
    found = []
    for loss, method.run.lr in zip(losses, lrs):
        method.epoch_end(loss)
        found.append(method.memory["interval"])
    assert found == expected


def test_without_a_warm_up_the_first_loss_and_rate_are_those_of_the_first_step():
    run = small.trainer(small.task(3, dtype=torch.float32), NAME, warmup_steps=0)
    run.train(until=1)
    loss = sum(worker.run.loss.item() for worker in run.workers) / 3
    for worker in run.workers:
        memory = worker.method.memory
        assert memory["first_loss"].item() == pytest.approx(loss, rel=1e-6)
        assert memory["highest_lr"] == memory["last_lr"] == worker.run.lr
        assert worker.ledger.rows["world", "mean", "control"].payload_push == 4


@pytest.mark.parametrize("stop", [4, 5, 6, 10])
def test_with_slices_in_flight_it_goes_on_to_the_same_bits_and_may_be_looked_at(stop, tmp_path):
    """With delay 0 too, whose slices are in flight from one step to the next, over an epoch's end as well."""
    options = {"warmup_steps": 2, "interval": 2, "slice": 40, "at_sync": 0.5, "local_momentum": True}
    resumed = small.resumed(lambda: small.trainer(small.task(3), NAME, **options), stop, tmp_path)
    watched = small.trainer(small.task(3), NAME, **options)
    watched.train(after_step=lambda run: run.shipped())
    assert small.everything(watched) == small.everything(resumed)
