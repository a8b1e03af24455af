"""CUDA starts before a rank has a heartbeat that could be missed."""

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from thinwire.config.expand_suite import cells
from thinwire.config.suite import load
from thinwire.errors import ResourceError, UserError
from thinwire.launch import exit_report, flight_recorder, rank
from thinwire.transport.rank_placement import Placement

CELL = replace(cells("demo")[0], transport="processes", device="cuda")
PLACEMENT = Placement(1, 4, 1, "node", "127.0.0.1", 1, "fork", b"secret")


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


def join(recorders):
    with ExitStack() as held:
        return rank._join(CELL, Path("results"), load("demo"), PLACEMENT, recorders, False, held)


def test_cuda_starts_while_the_others_wait_for_this_rank(events):
    _, device = join(flight_recorder.in_memory(4))
    assert device == torch.device("cuda", 1)
    assert events == ["starts cuda:1", "joins", "beats"]


def test_a_gpu_that_does_not_start_is_trouble_and_no_lost_rank(events, monkeypatch):
    def fail(device):
        raise torch.AcceleratorError("CUDA error: all CUDA-capable devices are busy or unavailable")

    monkeypatch.setattr(torch.cuda, "set_device", fail)
    recorders = flight_recorder.in_memory(4)
    with pytest.raises(ResourceError, match="devices are busy"):
        join(recorders)
    assert "devices are busy" in exit_report.read(recorders)[1].trouble


def test_a_rank_without_a_gpu_is_trouble_and_no_lost_rank(events, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    recorders = flight_recorder.in_memory(4)
    with pytest.raises(UserError, match="torch finds none here"):
        join(recorders)
    assert "torch finds none here" in exit_report.read(recorders)[1].trouble
    assert events == []
