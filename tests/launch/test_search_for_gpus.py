"""The parent of the ranks never starts CUDA, because its forks could not use it then."""

import os
from dataclasses import replace

import pytest

from thinwire.config.expand_suite import cells
from thinwire.config.suite import load
from thinwire.errors import UserError
from thinwire.launch import local_processes
from thinwire.launch.retry import require_no_trouble

CELL = replace(cells("demo")[0], device="cuda", workers=4, nodes=1)


@pytest.fixture
def searches(tmp_path, monkeypatch):
    """A file with the process of each search for a GPU; the runs themselves write `trained`."""
    path = tmp_path / "searches"

    def device_of(cell, place):
        with path.open("a") as file:
            file.write(f"{os.getpid()}\n")

    monkeypatch.setattr(local_processes, "warm_up", lambda cell: None)
    monkeypatch.setattr(local_processes, "device_of", device_of)
    monkeypatch.setattr(local_processes, "Attempt", lambda *_: None)
    return path


def start(cell, folder):
    def train(attempt):
        (folder / "trained").touch()
        return 0

    return local_processes.starter(cell, load("demo"), folder, False, train)(lambda: True)


def test_gpus_are_searched_for_in_a_fork(searches, tmp_path):
    assert start(CELL, tmp_path).reports == []
    pids = searches.read_text().split()
    assert len(pids) == 4
    assert str(os.getpid()) not in pids
    assert (tmp_path / "trained").exists()


def test_a_missing_gpu_is_the_users_trouble_and_nothing_is_trained(searches, tmp_path, monkeypatch):
    def device_of(cell, place):
        raise UserError("torch finds none here")

    monkeypatch.setattr(local_processes, "device_of", device_of)
    end = start(CELL, tmp_path)
    with pytest.raises(UserError, match=r"^torch finds none here$"):
        require_no_trouble(end.reports)
    assert not (tmp_path / "trained").exists()


def test_a_run_on_cpus_searches_for_nothing(searches, tmp_path):
    start(replace(CELL, device="cpu"), tmp_path)
    assert not searches.exists()
