"""Ranks that share a GPU are refused before NCCL would fail."""

from types import SimpleNamespace

import pytest
import torch

from thinwire.errors import UserError
from thinwire.launch.shared_gpus import require_gpus_of_their_own, uuid_of


def test_ranks_that_share_a_gpu_are_named():
    with pytest.raises(UserError, match="ranks 1 and 3 share a GPU of b, but NCCL needs one for each rank"):
        require_gpus_of_their_own(["u", "v", "w", "v"], ["a", "b", "a", "b"])


def test_ranks_with_gpus_of_their_own_are_accepted():
    require_gpus_of_their_own(["u", "v"], ["a", "a"])


def test_a_gpu_is_known_by_its_uuid(monkeypatch):
    about = SimpleNamespace(uuid="8ffd72d4-1f5a")
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: about)
    assert uuid_of(torch.device("cuda", 0)) == "8ffd72d4-1f5a"
