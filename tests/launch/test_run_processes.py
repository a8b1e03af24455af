"""From what the processes of a run leave to one sentence: who died, of what, and whether that is a result."""

import signal

import pytest

from thinwire.launch import run_processes
from thinwire.launch.retry import diagnose
from thinwire.launch.run_processes import ExitReport, How, end_of


def end(rank, how, what="", doing="computes", phase="runs"):
    return ExitReport(how, what, rank, f"n{rank}", phase, doing)


LOST = end(0, How.LOST, "Connection closed by peer")
FOLLOWED = end(3, How.FOLLOWED, "another rank has ended")
KILLED = end(1, How.DIED, "SIGKILL")
ABORTED = end(0, How.DIED, "SIGABRT (a hint)")
HUNG = end(0, How.HUNG, "nothing has moved")
ABSENT = end(1, How.ABSENT, doing="", phase="")


def failed(sentence, *hosts, aborted=False):
    """A diagnosis: this is in the record, unless hosts have lost processes; another attempt may succeed."""
    return "failed", sentence, bool(hosts), frozenset(hosts), aborted


BY_SIGKILL = failed("rank 1 on n1 was killed by SIGKILL while it computes", "n1")
NOT_BY_US = "ended with exit code {}, and thinwire did not end it"
SILENT = "rank 1 on n1 has not been heard of for 15 s"
# What the processes left, and what is made of it.
SENTENCES = {
    "an error of the method": (
        [LOST, end(2, How.FAILED, "out of luck"), KILLED],
        failed("rank 2 on n2: out of luck"),
    ),
    "a divergence": (
        [LOST, end(1, How.DIVERGED, "not finite")],
        ("diverged", "rank 1 on n1: not finite", False, frozenset(), False),
    ),
    "an exit by somebody else": (
        [LOST, end(1, How.EXITED, "0"), KILLED],
        failed(f"rank 1 on n1 {NOT_BY_US.format(0)} while it computes"),
    ),
    "in one process": ([ExitReport(How.EXITED, "143")], failed(f"the process {NOT_BY_US.format(143)}")),
    "a signal": ([LOST, FOLLOWED, KILLED], BY_SIGKILL),
    "a signal, after which another rank read half a message": ([ABORTED, KILLED], BY_SIGKILL),
    "an abort alone": (
        [ABORTED, LOST],
        failed("rank 0 on n0 was killed by SIGABRT (a hint) while it computes", "n0", aborted=True),
    ),
    "a signal, for which the others waited": ([HUNG, KILLED], BY_SIGKILL),
    "a hang": ([HUNG, FOLLOWED], failed("nothing has moved")),
    "a silent rank": ([end(0, How.SILENT, SILENT), end(1, How.GONE)], failed(SILENT, "n1")),
    "a rank that nobody saw end": (
        [LOST, end(1, How.GONE, doing="waits for a")],
        failed("rank 1 on n1 is gone; it last waits for a", "n1"),
    ),
    "a rank that never came": ([LOST, ABSENT], failed("rank 1 has not come", "n1")),
    "a lost connection": (
        [LOST, FOLLOWED],
        failed("rank 0 on n0 lost contact: Connection closed by peer", "n0"),
    ),
    "nobody came": ([ABSENT, ABSENT], None),
    "no process": ([], None),
    "asked to stop": ([end(0, How.INTERRUPTED, "15")], None),
}
ABORT = "SIGABRT (gloo aborts if calls differ in size; thinwire check --processes looks for such)"


@pytest.mark.parametrize("fault", SENTENCES)
def test_the_end_that_explains_the_others_is_the_cause(fault):
    left, diagnosis = SENTENCES[fault]
    assert diagnose(left) == diagnosis
    assert diagnose(left[::-1]) == diagnosis


@pytest.mark.parametrize(
    ("code", "killed_now", "end"),
    [
        (0, 3, (How.EXITED, "0")),
        (143, 3, (How.EXITED, "143")),
        (-signal.SIGSEGV, 4, (How.DIED, "SIGSEGV")),
        (-signal.SIGKILL, 3, (How.DIED, "SIGKILL")),
        (-signal.SIGABRT, 3, (How.DIED, ABORT)),
        (-signal.SIGKILL, 4, (How.DIED, "SIGKILL, as memory ran out on its machine,")),
    ],
)
def test_what_a_parent_sees_of_an_end(monkeypatch, code, killed_now, end):
    monkeypatch.setattr(run_processes, "killed_for_memory", lambda: killed_now)
    assert end_of(code, killed_before=3) == end


def test_what_the_kernel_says_of_memory_is_a_number():
    assert run_processes.killed_for_memory() >= 0


@pytest.mark.parametrize("where", ["memory", "files"])
def test_a_status_outlives_its_process(tmp_path, where):
    if where == "memory":
        statuses = again = run_processes.in_memory(["n0", "n1", "n2"])
    else:
        run_processes.make_files(tmp_path / "ranks", 3)
        statuses, again = (run_processes.in_files(tmp_path / "ranks", 3) for _ in range(2))
    for rank, status in enumerate(statuses[:2]):
        status.phase(f"n{rank}", "opens its channels")
        status.phase(f"n{rank}", "runs")
        status.doing("waits for ä" + "x" * 1000)
    statuses[1].ends(How.TROUBLE, "first")
    statuses[1].ends(How.FAILED, "\0" * 100_000)
    assert [status.has_ended() for status in statuses] == [False, True, False]
    left = run_processes.reports(again)
    assert [one.how for one in left] == [How.GONE, How.FAILED, How.ABSENT]
    assert [one.phase for one in left] == ["runs", "runs", ""]
    assert left[1].what == "\0" * 2500
    assert left[0].who == "rank 0 on n0"
    assert left[0].doing.startswith("waits for ä")


def test_a_phase_is_what_a_rank_does_until_it_says_more():
    (status,) = run_processes.in_memory(["n0"])
    status.phase("n0", "opens its channels")
    assert (
        diagnose(run_processes.reports([status])).reason == "rank 0 on n0 is gone; it last opens its channels"
    )


def test_an_end_that_a_killed_process_has_written_in_part_is_none():
    (status,) = run_processes.in_memory(["n0"])
    status.ends(How.LOST, "x")
    whole = bytes(status._mapped[:])
    status._mapped[:] = whole.replace(b'"x"]', b'"x  ')
    assert not status.has_ended()
