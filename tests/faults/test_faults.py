"""Whatever fault hits a run, its result is that of a run without the fault, or it has no result."""

import re

import pytest

from tests.faults import matrix, sandbox
from tests.faults.conftest import Trials
from tests.faults.matrix import NUMBER, Case
from tests.faults.room import Call

pytestmark = pytest.mark.slow

# What is said of a rank that is lost, by the fault.
_DESCRIPTIONS = {
    # Slurm's ranks have no common parent that sees it at once.
    "KILL": "was killed by SIGKILL|is gone|has not been heard of",
    "KILL task": "is gone|has not been heard of",
    "SEGV": "was killed by SIGSEGV|is gone",
    "STOP": "has not been heard of|did not come|is gone",
}


def test_a_case(case: Case, trials: Trials) -> None:
    if case.needs_mounts and (reason := sandbox.why_not()):
        pytest.skip(reason)
    undisturbed = trials.undisturbed(case)
    calls = trials.try_case(case)
    first, last = calls[0], calls[-1]
    assert first.struck or case.fault == "plug-in", f"the fault did not come: {first}"
    for call in calls:
        assert call.code is not None, f"it did not end: {call}"
        assert call.processes == []
        assert call.locks == []
        assert "Traceback" not in call.err
    globals()[f"_{case.ends}"](case, calls)
    assert last.shm == []
    if case.ends == matrix.FAILED:
        return
    assert (last.status, last.reason) == ("done", None), last
    assert undisturbed.status == "done"
    assert last.curve == undisturbed.curve
    assert last.traffic == undisturbed.traffic
    if case.saved:
        went_on = "goes on after step" in last.log or "finished before" in last.out
        assert went_on or len(calls) == 1
    assert set(last.others.values()) <= {"done"}


def _again(case: Case, calls: list[Call]) -> None:
    (only,) = calls
    assert (only.code, only.status) == (0, "done"), only
    output = only.out + only.err + only.log
    if case.start == matrix.ALONE:
        assert f"the process was killed by SIG{case.fault.split()[0]}" in output, output
    elif case.fault == "lost link":
        # Both sides notice that the other is missing, and either may report it first.
        assert re.search(r"rank \d on n[12]", output), output
    else:
        found = re.findall(rf"rank (\d+) on \S+ (?:{_DESCRIPTIONS[case.fault]})", output)
        # Of a record that is all but in place nothing is missing.
        assert set(found) == {str(case.rank)} or (case.late and not found), output
    if case.saved and not case.late:
        assert "goes on after step" in only.log


def _ended(case: Case, calls: list[Call]) -> None:
    first, _ = calls
    assert first.code == -9, first
    assert first.status is None


def _stopped(case: Case, calls: list[Call]) -> None:
    first = calls[0]
    number = NUMBER.get(case.fault, NUMBER["HUP"])
    if case.late and len(calls) == 1:
        assert first.code == 0, first
        return
    assert first.shm == []
    assert first.status is None
    if case.saved and not case.late:
        assert first.code == 128 + number, first
        assert "interrupted after step" in first.log
    else:
        # Nothing is there to be saved yet, so that the signal may end the process itself.
        assert first.code in (128 + number, -number), first


def _held(case: Case, calls: list[Call]) -> None:
    if case.fault in matrix.BETWEEN:
        assert calls[0].code == 128 + NUMBER["TERM"], calls[0]
        calls = calls[1:]
    first = calls[0]
    if len(calls) == 1:
        assert first.code == 0, first
        return
    assert first.code == 2, first
    assert first.status is None
    assert first.shm == []
    sentences = first.err.strip().splitlines()
    assert sentences, first
    assert all(line.startswith("thinwire: ") for line in sentences), first.err
    if case.saved:
        assert first.checkpoints > 0


def _unmoved(case: Case, calls: list[Call]) -> None:
    (only,) = calls
    assert only.code == 0, only


def _failed(case: Case, calls: list[Call]) -> None:
    (only,) = calls
    assert only.code == (0 if case.start == matrix.BLOCK else 1), only
    assert only.status == "failed", only
    assert set(only.others.values()) <= {"done"}
    assert only.reason is not None
    if case.start == matrix.ALONE and case.fault == "plug-in":
        assert "methods/faulty.py, line" in only.reason
    else:
        assert re.match(rf"rank {case.rank} on \S+", only.reason), only.reason
