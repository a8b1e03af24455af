"""What is decided about ranks from their reports: placement, outcome, diagnosis, crowding."""

import resource

import pytest

from thinwire.errors import ResourceError, UserError
from thinwire.launch import exit_report, flight_recorder
from thinwire.launch.diagnosis import diagnose
from thinwire.launch.exit_report import ExitReport
from thinwire.launch.hang_detection import Beat, HangDetector, describe_hang
from thinwire.launch.launcher_environment import from_environment, require_match, require_places
from thinwire.launch.rank import _require_open_files
from thinwire.launch.rendezvous_address import first_host, port_of_launch
from thinwire.train.time_validity import no_time_because
from thinwire.worker_placement import Cluster

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


def placed(variables):
    return from_environment(lambda launch: launch.encode(), variables)


def test_a_rank_is_placed_by_sruns_variables():
    placement = placed(SLURM)
    assert placement is not None
    assert (placement.rank, placement.workers, placement.place) == (3, 4, 1)
    assert (placement.node, placement.host) == ("gpu08", "gpu07")
    other_step = placed(SLURM | {"SLURM_STEP_ID": "3"})
    assert other_step is not None
    assert other_step.port != placement.port
    moved = placed(SLURM | {"MASTER_ADDR": "10.0.0.7", "MASTER_PORT": "5000"})
    assert moved is not None
    assert (moved.host, moved.port) == ("10.0.0.7", 5000)


def test_a_rank_is_placed_by_torchruns_variables():
    placement = placed(TORCHRUN)
    assert placement is not None
    assert (placement.rank, placement.workers, placement.place) == (3, 4, 1)
    assert (placement.host, placement.port) == ("first", 29400)
    # torchrun listens at its port itself.
    agent = placed(TORCHRUN | {"TORCHELASTIC_RUN_ID": "x"})
    assert agent is not None
    assert agent.port == 29401


@pytest.mark.parametrize(
    "variables",
    [{}, {"SLURM_JOB_ID": "71"}, SLURM | {"SLURM_STEP_NUM_TASKS": "1"}],
    ids=["by hand", "in a batch script", "one task"],
)
def test_a_process_without_a_placement_starts_its_own_ranks(variables):
    assert placed(variables) is None


def test_variables_that_are_missing_or_odd_are_named():
    with pytest.raises(UserError, match="no MASTER_ADDR"):
        placed({k: v for k, v in TORCHRUN.items() if k != "MASTER_ADDR"})
    with pytest.raises(UserError, match="SLURM_PROCID is 'x'"):
        placed(SLURM | {"SLURM_PROCID": "x"})


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
            _require_open_files(Cluster(4, 1))
    else:
        _require_open_files(Cluster(4, 1))
        assert set_to[-1][0] == raised


def test_a_wrong_number_of_ranks_is_refused_with_the_right_command():
    require_match(Cluster(4, 2), 4, "srun")
    with pytest.raises(UserError, match=r"3 ranks.*4 workers on 2 nodes.*srun --nodes=2 --ntasks=4"):
        require_match(Cluster(4, 2), 3, "srun")


@pytest.mark.parametrize(
    ("nodes", "fine"),
    [
        (["a", "a", "b", "b"], True),
        (["a", "b", "a", "b"], False),
        (["a", "a", "a", "a"], False),
        (["a", "a", "b", "c"], False),
    ],
)
def test_ranks_must_sit_as_the_cell_describes(nodes, fine):
    if fine:
        require_places(Cluster(4, 2), nodes)
    else:
        with pytest.raises(UserError, match=", ".join(nodes)):
            require_places(Cluster(4, 2), nodes)


def beats(numbers, moves, doing=None):
    doing = doing or ["computes"] * len(numbers)
    return [Beat(i, f"n{i}", n, m, d) for i, (n, m, d) in enumerate(zip(numbers, moves, doing))]


def test_a_silent_rank_is_named_only_after_its_time_limit():
    detector = HangDetector(silent_seconds=10, hang_seconds=100, paused_seconds=50)
    assert detector.check(beats([1, 1], [1, 1]), now=0) == {}
    assert detector.check(beats([9, 1], [9, 1]), now=9) == {}
    diagnosis = detector.check(beats([12, 1], [12, 1]), now=11)
    assert diagnosis == {"alarm": "rank 1 on n1 has not been heard of for 10 s"}


def test_a_detector_that_was_paused_itself_starts_again():
    """The machine was paused: there was no heartbeat, and no rank is to blame."""
    detector = HangDetector(silent_seconds=10, hang_seconds=20, paused_seconds=5)
    assert detector.check(beats([1, 1], [1, 1]), now=0) == {}
    assert detector.check(beats([1, 1], [1, 1]), now=100) == {}
    # A rank that wakes has the full time again, and a rank that does not is named.
    for now in range(101, 111):
        assert detector.check(beats([now, 1], [1, 1]), now) == {}
    assert "rank 1 on n1" in detector.check(beats([111, 1], [1, 1]), now=111)["alarm"]


def test_of_a_hanging_run_the_rank_that_does_not_wait_is_blamed():
    detector = HangDetector(silent_seconds=10, hang_seconds=60, paused_seconds=50)
    waits = ["waits for mean on run.world", "computes", "waits for mean on run.world"]
    for now in range(61):
        assert detector.check(beats([now] * 3, [5, 5, 5], waits), now) == {}
    diagnosis = detector.check(beats([61] * 3, [5, 5, 5], waits), 61)
    assert diagnosis == {"hung": "nothing has moved for 60 s: rank 1 on n1 computes, and the others wait"}
    all_wait = ["waits for a", "waits for b", "waits for b"]
    diagnosis = detector.check(beats([62] * 3, [5, 5, 5], all_wait), 62)
    assert "rank 0 on n0 waits for a; rank 1 on n1 waits for b" in diagnosis["hung"]


@pytest.mark.parametrize("doing", ["saves a checkpoint", "reads its checkpoints", "saves its record"])
def test_a_disk_that_hangs_is_no_failure_of_the_method(doing):
    waits = [doing, "waits for the status of all workers"]
    ((field, text),) = describe_hang(beats([9, 9], [5, 5], waits), 60).items()
    assert field == "trouble"
    assert text.startswith(
        f"nothing has moved for 60 s: rank 0 on n0 {doing}, and the others wait: see whether"
    )
    assert "hung" in describe_hang(beats([9, 9], [5, 5], [doing, "computes"]), 60)


def test_a_run_is_not_ended_while_one_rank_makes_progress():
    detector = HangDetector(silent_seconds=10, hang_seconds=60, paused_seconds=50)
    for now in range(0, 600, 5):
        assert detector.check(beats([now, now], [1, now], ["waits for a", "computes"]), now) == {}


def report(rank, **more):
    return ExitReport(rank=rank, host=f"n{rank}", **more)


LOST = report(0, lost="Connection closed by peer")
KILLED = report(1, died="SIGKILL", doing="computes")


@pytest.mark.parametrize(
    ("left", "diagnosis", "lost"),
    [
        ([LOST, report(2, outcome=("failed", "out of luck"))], "rank 2 on n2: out of luck", False),
        ([LOST, KILLED], "rank 1 on n1 was killed by SIGKILL while it computes", True),
        # A process that reads half a message from a killed process aborts.
        ([report(0, died="SIGABRT"), KILLED], "rank 1 on n1 was killed by SIGKILL while it computes", True),
        (
            [report(0, hung="nothing has moved"), KILLED],
            "rank 1 on n1 was killed by SIGKILL while it computes",
            True,
        ),
        ([report(0, hung="nothing has moved")], "nothing has moved", False),
        (
            [report(0, alarm="rank 1 on n1 has not been heard of for 15 s"), report(1, vanished=True)],
            "rank 1 on n1 has not been heard of for 15 s",
            True,
        ),
        (
            [LOST, report(1, exited=0, doing="computes")],
            "rank 1 on n1 ended with exit code 0, and thinwire did not end it while it computes",
            False,
        ),
        (
            [LOST, report(1, vanished=True, doing="waits for a")],
            "rank 1 on n1 is gone; it last waits for a",
            True,
        ),
        ([LOST, report(1, vanished=True, phase="")], "rank 1 has not come", True),
        ([LOST], "rank 0 on n0 lost contact: Connection closed by peer", True),
        (
            [
                report(0, lost="x", calls={"world/0": {"6": "mean(a)", "7": "mean(a)"}}),
                report(1, died="SIGABRT", calls={"world/0": {"6": "mean(a)", "7": "mean(b)"}}),
            ],
            "the workers do not agree on run.world: call 7: rank 0 calls mean(a) and rank 1 calls mean(b)",
            False,
        ),
    ],
)
def test_the_failure_that_explains_the_others_is_the_cause(left, diagnosis, lost):
    assert diagnose(left) == ("failed", diagnosis, lost)


def test_a_divergence_of_one_rank_is_no_failure():
    left = [LOST, report(1, outcome=("diverged", "not finite"))]
    assert diagnose(left) == ("diverged", "rank 1 on n1: not finite", False)


def test_no_rank_has_joined():
    assert diagnose([]) is None
    assert diagnose([report(rank, vanished=True, phase="") for rank in range(2)]) is None


@pytest.mark.parametrize("where", ["memory", "files"])
def test_recorders_are_read_back(tmp_path, where):
    if where == "memory":
        recorders = flight_recorder.in_memory(3)
    else:
        flight_recorder.make_files(tmp_path / "ranks", 3)
        recorders = flight_recorder.in_files(tmp_path / "ranks", 3)
    for rank, recorder in enumerate(recorders[:2]):
        recorder.phase(f"n{rank}", "runs")
        recorder.doing("waits for ä" + "x" * 1000)
        for number in range(1, 301):
            recorder.called("world/0", number, f"mean({rank})" + "y" * 1000)
    exit_report.write(recorders[1], report(1, outcome=("failed", "z" * 100_000), trouble="w" * 100_000))
    assert [exit_report.is_left(recorder) for recorder in recorders] == [False, True, False]
    again = recorders if where == "memory" else flight_recorder.in_files(tmp_path / "ranks", 3)
    left = exit_report.read(again)
    assert [one.vanished for one in left] == [True, False, True]
    assert [one.phase for one in left] == ["runs", "runs", ""]
    assert left[1].outcome == ("failed", "z" * 3000)
    assert left[0].host == "n0"
    assert left[0].doing.startswith("waits for ä")
    # The last ones, and cut alike.
    assert set(left[0].calls["world/0"]) == {str(number) for number in range(173, 301)}
    assert left[1].calls["world/0"]["300"].startswith("mean(1)yyy")


def test_half_an_entry_is_ignored():
    (recorder,) = flight_recorder.in_memory(1)
    recorder.phase("n0", "runs")
    recorder.called("world/0", 1, "mean(a)")
    recorder.called("world/0", 2, "mean(b)")
    exit_report.write(recorder, report(0, lost="x"))
    whole = bytes(recorder._mapped[:])
    for half in (b"mean(b)", b'"lost":"x"'):
        recorder._mapped[:] = whole.replace(half, half[:-2] + b"  ")
        assert recorder.read().calls["world/0"].get("2") in (None, "mean(b)")
    assert not exit_report.is_left(recorder)


def about(host, cores, device="cpu", **more):
    return {"host": host, "cores": cores, "device": device, **more}


@pytest.mark.parametrize(
    ("ranks", "nodes", "diagnosis"),
    [
        ([about("a", [0, 1]), about("a", [0, 1])], 1, None),
        ([about("a", [0]), about("a", [1]), about("b", [0]), about("b", [1])], 2, None),
        ([about("a", [0, 1])] * 4, 1, "4 workers shared 2 cores of a"),
        ([about("a", [0, 1])] * 2, 2, "its 2 nodes were 1 machine"),
        ([about("a", [0]), about("b", [0]), about("b", [1])], 3, "its 3 nodes were 2 machines"),
        ([about("a", [0], "gpu-1"), about("a", [0], "gpu-2")], 1, None),
        ([about("a", [0], "gpu-1"), about("a", [0], "gpu-1")], 1, "2 workers shared 1 GPU of a"),
        ([about("a", [0], "gpu-1", other_processes=0)], 1, None),
        ([about("a", [0], "gpu-1", other_processes=1)], 1, "1 other process used a GPU of a"),
        (
            [about("a", [0], "gpu-1", other_processes=0), about("b", [0], "gpu-1", other_processes=2)],
            2,
            "2 other processes used a GPU of b",
        ),
        ([about("a", [0], "gpu-1", messages_through_host=False)], 1, None),
        (
            [
                about("a", [0], "gpu-1", messages_through_host=False),
                about("a", [0], "gpu-2", messages_through_host=True),
            ],
            1,
            "its messages went through the memory of the hosts, and its other calls over NCCL",
        ),
    ],
)
def test_times_that_say_nothing_about_the_method_are_not_valid(ranks, nodes, diagnosis):
    assert no_time_because(ranks, Cluster(len(ranks), nodes)) == diagnosis
