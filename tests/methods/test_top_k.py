"""Top-k: random entries are others than the largest."""

import torch

from tests import small


def test_random_entries_are_others_than_the_largest():
    runs = [small.trainer(small.task(3), "top_k", selection=how) for how in ("exact", "random")]
    for run in runs:
        run.train()
    assert not torch.equal(runs[0].shipped()[0][0], runs[1].shipped()[0][0])
