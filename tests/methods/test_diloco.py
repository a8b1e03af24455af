"""DiLoCo: its limit is Local SGD, and bytes are the formula."""

import math

import pytest
import torch

from tests import small


def test_without_momentum_at_a_rate_of_one_it_is_local_sgd_to_the_bit():
    """After every step, also inside a round, and after the last round, which is shorter."""
    task = small.task(4, 2, dtype=torch.float32)
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
