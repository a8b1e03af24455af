"""DiLoCo: its limit is Local SGD."""

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
