"""Top-k: random entries are others than the largest."""

import torch

from tests import small


def test_random_entries_cost_as_much_as_the_largest_and_are_others():
    runs = [small.trainer(small.task(3), "top_k", selection=how) for how in ("exact", "random")]
    for run in runs:
        run.train()
    first, second = (run.workers[0].ledger.total().payload_push for run in runs)
    assert first == second
    assert not torch.equal(runs[0].shipped()[0][0], runs[1].shipped()[0][0])
