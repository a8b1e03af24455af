"""Which rank a process is, where it meets the others, and what it needs: a GPU that works, and open files."""

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
from thinwire.launch import rank, run_processes
from thinwire.launch.placement import (
    first_host,
    from_environment,
    port_of_launch,
    require_match,
    require_places,
)
from thinwire.launch.rank import require_gpus_of_their_own
from thinwire.launch.run_processes import How

SLURM = {
    "SLURM_JOB_ID": "71",
    "SLURM_STEP_ID": "2",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_PROCID": "3",
    "SLURM_LOCALID": "1",
    "SLURM_STEP_NODELIST": "gpu[07-08]",
    "SLURMD_NODENAME": "gpu08",
}
TORCHRUN = {
    "RANK": "3",
    "WORLD_SIZE": "4",
    "LOCAL_RANK": "1",
    "GROUP_RANK": "1",
    "MASTER_ADDR": "first",
    "MASTER_PORT": "29400",
}


def test_a_rank_is_placed_by_sruns_variables():
    placement = from_environment(SLURM)
    assert (placement.rank, placement.workers, placement.place) == (3, 4, 1)
    assert (placement.node, placement.meeting.host) == ("gpu08", "gpu07")
    for other in (from_environment(SLURM | {"SLURM_STEP_ID": "3"}), from_environment(SLURM, launch=1)):
        assert other.meeting.port != placement.meeting.port
        assert other.meeting.launch != placement.meeting.launch
    moved = from_environment(SLURM | {"MASTER_ADDR": "10.0.0.7", "MASTER_PORT": "5000"})
    assert (moved.meeting.host, moved.meeting.port) == ("10.0.0.7", 5000)


def test_a_rank_is_placed_by_torchruns_variables():
    placement = from_environment(TORCHRUN)
    assert (placement.rank, placement.workers, placement.place) == (3, 4, 1)
    assert (placement.meeting.host, placement.meeting.port) == ("first", 29400)
    # torchrun listens at its port itself.
    assert from_environment(TORCHRUN | {"TORCHELASTIC_RUN_ID": "x"}).meeting.port == 29401


@pytest.mark.parametrize(
    "variables",
    [{}, {"SLURM_JOB_ID": "71"}, SLURM | {"SLURM_STEP_NUM_TASKS": "1"}],
    ids=["by hand", "in a batch script", "one task"],
)
def test_a_process_without_a_placement_starts_its_own_ranks(variables):
    assert from_environment(variables) is None


def test_variables_that_are_missing_or_odd_are_named():
    with pytest.raises(UserError, match="no MASTER_ADDR"):
        from_environment({k: v for k, v in TORCHRUN.items() if k != "MASTER_ADDR"})
    with pytest.raises(UserError, match="SLURM_PROCID is 'x'"):
        from_environment(SLURM | {"SLURM_PROCID": "x"})


@pytest.mark.parametrize(
    ("nodes", "first"),
    [
        ("n1", "n1"),
        ("n[1-4]", "n1"),
        ("gpu[03-05,9],login", "gpu03"),
        ("a,b[1-2]", "a"),
        ("rack-2-n[007,009]", "rack-2-n007"),
        ("n[2-3].cluster", "n2.cluster"),
        ("rack[1-2]n[1-3],login", "rack1n1"),
        ("a[01-02,4]b[5,7-9].c", "a01b5.c"),
    ],
)
def test_the_first_of_slurms_hosts(nodes, first):
    assert first_host(nodes) == first


def test_no_port_of_a_launch_is_one_that_linux_gives_to_others():
    ports = {port_of_launch(job, 0, launch) for job in range(700) for launch in range(100)}
    assert min(ports) > 1024
    assert max(ports) < 32768


def test_a_wrong_number_of_ranks_is_refused_with_the_right_command():
    require_match(Cluster(4, 2), 4, "srun")
    with pytest.raises(UserError, match=r"3 ranks.*4 workers on 2 nodes.*srun --nodes=2 --ntasks=4"):
        require_match(Cluster(4, 2), 3, "srun")


def test_ranks_must_sit_as_the_cell_describes():
    require_places(Cluster(4, 2), ["a", "a", "b", "b"])
    for nodes in (["a", "b", "a", "b"], ["a", "a", "a", "a"], ["a", "a", "b", "c"]):
        with pytest.raises(UserError, match=", ".join(nodes)):
            require_places(Cluster(4, 2), nodes)


CELL = replace(cells("demo")[0], transport="processes", device="cuda")
PLACEMENT = Placement(1, 4, 1, "node", "fork", SharedFile("meeting", "lo"))
NODES = ["node"] * 4


@pytest.fixture
def events(monkeypatch):
    """What happened, in order; joining and beating do nothing here."""
    found = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "NVIDIA A100-SXM4-40GB")
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: found.append(f"starts {device}"))
    monkeypatch.setattr(rank, "join", lambda *_: found.append("joins"))
    monkeypatch.setattr(rank, "Heartbeat", lambda *_: found.append("beats"))
    return found


def join(statuses):
    with ExitStack() as held:
        return rank._join(CELL, Path("results"), load("demo"), PLACEMENT, statuses, False, held)


def require_trouble(error, words):
    """Joining raises this error, and the rank reports it as trouble."""
    statuses = run_processes.in_memory(NODES)
    with pytest.raises(error, match=words):
        join(statuses)
    left = run_processes.reports(statuses)[1]
    assert left.how is How.TROUBLE
    assert words in left.what


def test_cuda_starts_while_the_others_wait_for_this_rank(events):
    _, device = join(run_processes.in_memory(NODES))
    assert device == torch.device("cuda", 1)
    assert events == ["starts cuda:1", "joins", "beats"]


def test_a_gpu_that_does_not_start_or_is_not_there_is_trouble_and_no_lost_rank(events, monkeypatch):
    def fail(device):
        raise torch.AcceleratorError("CUDA error: all CUDA-capable devices are busy or unavailable")

    monkeypatch.setattr(torch.cuda, "set_device", fail)
    require_trouble(ResourceError, "devices are busy")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    require_trouble(UserError, "torch finds none here")
    assert events == []


def test_ranks_that_share_a_gpu_are_named_before_nccl_fails():
    require_gpus_of_their_own(["u", "v"], ["a", "a"])
    with pytest.raises(UserError, match="ranks 1 and 3 share a GPU of b, but NCCL needs one for each rank"):
        require_gpus_of_their_own(["u", "v", "w", "v"], ["a", "b", "a", "b"])


@pytest.mark.parametrize(
    ("limits", "raised"),
    [((16, 64), None), ((64, 4096), 183), ((1024, 1024), 1024), ((16, resource.RLIM_INFINITY), 183)],
)
def test_a_rank_that_may_open_too_few_files_says_so_before_others_wait_for_it(monkeypatch, limits, raised):
    set_to = [limits]
    monkeypatch.setattr(resource, "getrlimit", lambda _: limits)
    monkeypatch.setattr(resource, "setrlimit", lambda _, new: set_to.append(new))
    if raised is None:
        with pytest.raises(ResourceError, match="may open 64 files, and one of 8 workers opens up to 183"):
            rank._require_open_files(Cluster(8, 2))
    else:
        rank._require_open_files(Cluster(8, 2))
        assert set_to[-1][0] == raised
