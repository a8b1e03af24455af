"""The initial weights: from the CPU, whatever GPUs there are."""

import warnings

import torch

from tests import small
from thinwire.task import initial_model


def test_no_gpu_is_touched_where_there_are_several(monkeypatch):
    """torch warns where it would initialise all of them."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        initial_model(small.task(1))


def test_the_random_state_of_the_process_stays_as_it_is():
    before = torch.get_rng_state()
    first, second = (initial_model(small.task(1)) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(map(torch.equal, first.parameters(), second.parameters()))
