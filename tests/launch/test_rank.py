"""What a rank needs before it begins: a GPU of its own that works, and enough open files."""

import resource
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from thinwire.base.errors import ResourceError, UserError
from thinwire.base.placement import Cluster, Placement, SharedFile
from thinwire.config.expand import cells
from thinwire.config.suite import load
from thinwire.launch import postmortem, rank
from thinwire.launch.postmortem import How
from thinwire.launch.rank import require_gpus_of_their_own

CELL = replace(cells("demo")[0], transport="processes", device="cuda")
PLACEMENT = Placement(1, 4, 1, "node", "fork", SharedFile("meeting", "lo"))
NODES = ["node"] * 4


@pytest.fixture
def events(monkeypatch):
    """What happened, in order; joining and beating do nothing here."""
    found = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: found.append(f"starts {device}"))
    monkeypatch.setattr(rank, "join", lambda *_: found.append("joins"))
    monkeypatch.setattr(rank, "Heartbeat", lambda *_: found.append("beats"))
    return found


def join(statuses):
    with ExitStack() as held:
        return rank._join(CELL, Path("results"), load("demo"), PLACEMENT, statuses, False, held)


def require_trouble(error, words):
    """Joining raises this error, and the rank reports it as trouble."""
    statuses = postmortem.in_memory(NODES)
    with pytest.raises(error, match=words):
        join(statuses)
    left = postmortem.reports(statuses)[1]
    assert left.how is How.TROUBLE
    assert words in left.what


def test_cuda_starts_while_the_others_wait_for_this_rank(events):
    _, device = join(postmortem.in_memory(NODES))
    assert device == torch.device("cuda", 1)
    assert events == ["starts cuda:1", "joins", "beats"]


def test_a_gpu_that_does_not_start_is_trouble_and_no_lost_rank(events, monkeypatch):
    def fail(device):
        raise torch.AcceleratorError("CUDA error: all CUDA-capable devices are busy or unavailable")

    monkeypatch.setattr(torch.cuda, "set_device", fail)
    require_trouble(ResourceError, "devices are busy")


def test_a_rank_without_a_gpu_is_trouble_and_no_lost_rank(events, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    require_trouble(UserError, "torch finds none here")
    assert events == []


def test_ranks_that_share_a_gpu_are_named_before_nccl_fails():
    require_gpus_of_their_own(["u", "v"], ["a", "a"])
    with pytest.raises(UserError, match="ranks 1 and 3 share a GPU of b, but NCCL needs one for each rank"):
        require_gpus_of_their_own(["u", "v", "w", "v"], ["a", "b", "a", "b"])


@pytest.mark.parametrize(
    ("limits", "raised"),
    [((16, 64), None), ((64, 4096), 155), ((1024, 1024), 1024), ((16, resource.RLIM_INFINITY), 155)],
)
def test_a_rank_that_may_open_too_few_files_says_so_before_others_wait_for_it(monkeypatch, limits, raised):
    set_to = [limits]
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda _, new: set_to.append(new))
    if raised is None:
        with pytest.raises(ResourceError, match="may open 64 files, and one of 4 workers opens up to 155"):
            rank._require_open_files(Cluster(4, 1))
    else:
        rank._require_open_files(Cluster(4, 1))
        assert set_to[-1][0] == raised
