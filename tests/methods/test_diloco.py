"""DiLoCo: its outer step is torch's, its limit Local SGD, fragments land late, bytes are the formula."""

import math

import pytest
import torch

from tests import small
from thinwire.optim import outer

INNER = {
    "sgd": {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.01},
    "adamw": {"name": "adamw", "lr": 0.01},
    "muon": {"name": "muon", "lr": 0.01},
}


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_the_outer_step_is_that_of_torchs_sgd(momentum):
    """Heavy-ball momentum, or a change of the wrong sign, would part from it in the first two steps."""
    drawn = torch.Generator().manual_seed(2)
    theta = torch.randn(7, dtype=torch.float64, generator=drawn)
    other, velocity = torch.nn.Parameter(theta.clone()), torch.zeros_like(theta)
    sgd = torch.optim.SGD([other], lr=0.7, momentum=momentum, nesterov=momentum > 0)
    for _ in range(4):
        mean = torch.randn(7, dtype=torch.float64, generator=drawn)
        other.grad = theta - mean
        sgd.step()
        outer.step([theta], [velocity], [mean], 0.7, momentum)
        torch.testing.assert_close(theta, other.data, rtol=0, atol=1e-13)


@pytest.mark.parametrize("optimizer", INNER)
def test_without_momentum_at_a_rate_of_one_it_is_local_sgd_to_the_bit(optimizer):
    """After every step, also inside a round, and after the last round, which is shorter."""
    task = small.task(4, 2, dtype=torch.float32, optimizer=INNER[optimizer])
    run = small.trainer(task, "diloco", period=4, outer_lr=1.0, outer_momentum=0.0)
    local = small.trainer(task, "local_sgd", period=4)
    for step in range(1, run.total_steps + 1):
        run.train(until=step)
        local.train(until=step)
        assert small.digest(run.shipped()[0]) == small.digest(local.shipped()[0])
    mine, theirs = ([w.run.weights for w in each.workers] for each in (run, local))
    assert small.digest(mine) == small.digest(theirs)
    totals = [each.workers[0].ledger.total() for each in (run, local)]
    assert totals[0] == totals[1]


@pytest.mark.parametrize("period", [3, 4])
def test_the_last_round_lands_also_if_it_is_shorter(period):
    run = small.trainer(small.task(2), "diloco", period=period)
    run.train(until=14)
    before = [small.flat(worker.method.memory["theta"]) for worker in run.workers]
    run.train()
    for worker, theta in zip(run.workers, before):
        assert worker.method.memory["since"] == [0]
        assert not torch.equal(small.flat(worker.method.memory["theta"]), theta)
        assert torch.equal(small.flat(worker.run.weights), small.flat(worker.method.memory["theta"]))
    assert torch.equal(small.flat(run.shipped()[0]), small.flat(run.workers[0].run.weights))


def test_a_fragment_lands_late_with_what_was_sent_and_is_mixed_in(monkeypatch):
    run = small.trainer(small.task(3), "diloco", period=6, fragments=2, delay=2, mix=0.25)
    methods = [worker.method for worker in run.workers]
    assert methods[0].fragments == [[0, 1, 4, 5], [2, 3]], "convolution and linear layer, then batch norm"
    land, before = type(methods[0]).land, {}

    def noting(method, now):
        before[method] = [weight.clone() for weight in method.run.weights]
        land(method, now)

    monkeypatch.setattr(type(methods[0]), "land", noting)
    for fragment, sends in [(0, 3), (1, 6)]:

        def flat(tensors, fragment=fragment):
            return small.flat(methods[0].part(tensors, fragment)).clone()

        run.train(until=sends)
        sent = [flat(method.run.weights) for method in methods]
        theta = flat(methods[0].memory["theta"])
        run.train(until=sends + 1)
        assert torch.equal(theta, flat(methods[0].memory["theta"])), "it is still in flight"
        run.train(until=sends + 2)
        change = theta - sum(sent) / 3
        theta = theta - 0.7 * (change + 0.9 * change)  # m is the first change
        for method in methods:
            mixed = 0.25 * flat(before[method]) + 0.75 * theta
            torch.testing.assert_close(flat(method.memory["theta"]), theta)
            torch.testing.assert_close(flat(method.run.weights), mixed)


def test_at_the_end_fragments_in_flight_land_and_the_others_have_one_more_round():
    """Of 15 steps, the last sends are after steps 12 (fragment 1) and 15 (fragment 0, which lands)."""
    run = small.trainer(small.task(2), "diloco", period=6, fragments=2, delay=1, mix=0.5)
    run.train()
    for worker in run.workers:
        assert worker.method.memory["since"] == [0, 0]
        rows = worker.ledger.rows
        assert rows["world", "mean", "weights"].messages == 5 + 1 == 3 + 3
    assert len({small.digest(worker.method.memory["theta"]) for worker in run.workers}) == 1


@pytest.mark.parametrize("bits", [8, 4])
def test_in_few_bits_the_mean_is_that_of_the_changes_up_to_two_roundings(bits):
    exact, run = (small.trainer(small.task(3), "diloco", period=5, bits=b, block=16) for b in (32, bits))
    start = small.flat(run.workers[0].run.weights).clone()
    for each in (exact, run):
        each.train(until=4)
    largest = max(float((start - small.flat(w.run.weights)).abs().max()) for w in exact.workers)
    for each in (exact, run):
        each.train(until=5)
    error = small.flat(run.workers[0].run.weights) - small.flat(exact.workers[0].run.weights)
    # The outer step moves by 0.7 (1 + 0.9) times the mean, which may move on a little in the fifth step.
    assert 0 < float(error.abs().max()) <= 2 * 0.7 * 1.9 * 0.5 * 1.5 * largest / (2 ** (bits - 1) - 1)
    assert len({small.digest(worker.run.weights) for worker in run.workers}) == 1


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        ({"period": 5}, {316: 3}),
        ({"period": 4}, {316: 4}),
        ({"period": 3, "fragments": 3}, {30: 6, 6: 6, 280: 5}),
        ({"period": 6, "fragments": 2, "delay": 2, "mix": 0.5}, {30 + 280: 3, 6: 3}),
    ],
)
@pytest.mark.parametrize("bits", [32, 8, 4])
def test_bytes_are_the_formula(options, sent, bits):
    """How often each number of entries is sent: the last round is shorter, or is what is left over.

    In 32 bits 4 n each way. In fewer, levels and scales of each part, of which every worker has one.
    """
    run = small.trainer(small.task(6, 2, dtype=torch.float32), "diloco", bits=bits, block=10, **options)
    run.train()

    def encoded(n):
        parts = [len(part) for part in torch.zeros(n).chunk(6)]
        levels = [math.ceil(part * bits / 8) + 4 * math.ceil(part / 10) for part in parts]
        return 4 * n if bits == 32 else sum(levels)

    size = sum(times * encoded(n) for n, times in sent.items())
    totals = [worker.ledger.total() for worker in run.workers]
    assert {(total.payload_push, total.payload_pull) for total in totals} == {(size, size)}
    assert sum(total.wire_sent for total in totals) == pytest.approx(2 * 5 * size, abs=100)
