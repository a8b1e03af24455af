"""What a parent does before it forks: it imports what runs need, and it never starts CUDA."""

import os
from dataclasses import replace

import pytest

from tests.commands import python
from thinwire.base.errors import UserError
from thinwire.config.expand import cells
from thinwire.config.suite import load
from thinwire.launch import local_processes
from thinwire.launch.retry import require_no_trouble

PROGRAM = """
import sys
from thinwire.launch.run_processes import import_for_runs
import_for_runs()
before = set(sys.modules)
import pyarrow, pyarrow.parquet, torch
weight = torch.nn.Parameter(torch.ones(3))
weight.grad = torch.ones(3)
for name in ("SGD", "Adam"):
    getattr(torch.optim, name)([weight], fused=True).step()
pyarrow.parquet.write_table(pyarrow.table({"number": [0]}), pyarrow.BufferOutputStream())
print(len(set(sys.modules) - before))
"""


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Starts a run. Searches for GPUs write their processes to the file `searches`."""

    def started(device, error=None):
        def device_of(cell, place):
            with (tmp_path / "searches").open("a") as file:
                file.write(f"{os.getpid()}\n")
            if error is not None:
                raise error

        def train(attempt):
            (tmp_path / "trained").touch()
            return 0

        monkeypatch.setattr(local_processes, "device_of", device_of)
        cell = replace(cells("demo")[0], device=device, workers=4, nodes=1)
        return local_processes.starter(cell, load("demo"), tmp_path, False, train)(lambda: True)

    monkeypatch.setattr(local_processes, "warm_up", lambda cell: None)
    monkeypatch.setattr(local_processes, "Attempt", lambda *_: None)
    return started


@pytest.mark.parametrize(("device", "searches"), [("cuda", 4), ("cpu", 0)])
def test_gpus_are_searched_for_in_a_fork_and_only_for_a_run_on_gpus(start, tmp_path, device, searches):
    (tmp_path / "searches").touch()
    assert start(device).reports == []
    pids = (tmp_path / "searches").read_text().split()
    assert len(pids) == searches
    assert str(os.getpid()) not in pids
    assert (tmp_path / "trained").exists()


def test_a_missing_gpu_is_the_users_trouble_and_nothing_is_trained(start, tmp_path):
    end = start("cuda", UserError("torch finds none here"))
    with pytest.raises(UserError, match=r"^torch finds none here$"):
        require_no_trouble(end.reports)
    assert not (tmp_path / "trained").exists()


def test_optimizers_and_tables_of_a_run_import_next_to_nothing():
    """PyTorch's compiler, which optimizers import, has hundreds of modules, and so has pandas."""
    assert int(python("-c", PROGRAM).stdout) < 10


def test_laying_out_a_data_set_needs_no_torch():
    imports = "import sys, thinwire.cli.plugins_and_suites, thinwire; thinwire.Dataset"
    assert python("-c", f"{imports}; print('torch' in sys.modules)").stdout == "False\n"
