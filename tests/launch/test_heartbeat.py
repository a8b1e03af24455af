"""How a missing or hanging rank is noticed, and which one is blamed; no test here waits."""

from pathlib import Path

import pytest

from thinwire.base.placement import Address, Placement
from thinwire.config.expand import cells
from thinwire.config.suite import load
from thinwire.launch import rank, run_processes
from thinwire.launch.heartbeat import Beat, HangDetector, SharedBeats
from thinwire.launch.run_processes import How
from thinwire.transport.rendezvous import Refused


def beats(numbers, moves, doing=None):
    doing = doing or ["computes"] * len(numbers)
    return [Beat(i, f"n{i}", n, m, d) for i, (n, m, d) in enumerate(zip(numbers, moves, doing))]


def test_a_silent_rank_is_named_only_after_its_time_limit():
    detector = HangDetector(silent_seconds=10, hang_seconds=100, paused_seconds=50)
    assert detector.check(beats([1, 1], [1, 1]), now=0) is None
    assert detector.check(beats([9, 1], [9, 1]), now=9) is None
    silent = detector.check(beats([12, 1], [12, 1]), now=11)
    assert silent == (How.SILENT, "rank 1 on n1 has not been heard of for 10 s")


def test_a_detector_that_was_paused_itself_starts_again():
    """The machine was paused: there was no heartbeat, and no rank is to blame."""
    detector = HangDetector(silent_seconds=10, hang_seconds=20, paused_seconds=5)
    assert detector.check(beats([1, 1], [1, 1]), now=0) is None
    assert detector.check(beats([1, 1], [1, 1]), now=100) is None
    # A rank that wakes has the full time again, and a rank that does not is named.
    for now in range(101, 111):
        assert detector.check(beats([now, 1], [1, 1]), now) is None
    assert "rank 1 on n1" in detector.check(beats([111, 1], [1, 1]), now=111)[1]


def test_a_run_is_not_ended_while_one_rank_makes_progress():
    detector = HangDetector(silent_seconds=10, hang_seconds=60, paused_seconds=50)
    for now in range(0, 600, 5):
        assert detector.check(beats([now, now], [1, now], ["waits for a", "computes"]), now) is None


WAITS = "waits for mean(values) on run.world"
# What the ranks of a hanging run do, and the words in which one is blamed.
HANGS = {
    "one does not wait": ([WAITS, "computes", WAITS], "rank 1 on n1 computes, and the others wait"),
    "one has not begun": (["opens a channel", WAITS], "rank 0 on n0 opens a channel, and the others wait"),
    "all wait": (["waits for a", "waits for b"], "rank 0 on n0 waits for a; rank 1 on n1 waits for b"),
    "none waits": (
        ["saves a checkpoint", "computes"],
        "rank 0 on n0 saves a checkpoint; rank 1 on n1 computes",
    ),
    # A disk or a driver that hangs is no failure of the method.
    **{
        doing: (
            [doing, WAITS],
            f"rank 0 on n0 {doing}, and the others wait: see whether {system} answers, or raise "
            "hang_seconds of the suite, and start again; a run goes on from its last checkpoint",
        )
        for doing, system in {
            "asks nvidia-smi": "nvidia-smi",
            "saves a checkpoint": "the file system",
            "reads its checkpoints": "the file system",
        }.items()
    },
}


@pytest.mark.parametrize("hang", HANGS)
def test_of_a_hanging_run_the_rank_that_does_not_wait_is_blamed(hang):
    doing, words = HANGS[hang]
    how = How.TROUBLE if hang in doing else How.HUNG
    moves = [5] * len(doing)
    detector = HangDetector(silent_seconds=10, hang_seconds=60, paused_seconds=50)
    for now in range(61):
        assert detector.check(beats([now] * len(doing), moves, doing), now) is None
    hung = detector.check(beats([61] * len(doing), moves, doing), 61)
    assert hung == (how, f"nothing has moved for 60 s: {words}")


def test_ranks_of_one_machine_see_the_beats_and_the_alarm_of_all():
    statuses = run_processes.in_memory(["n0", "n1"])
    first, second = (SharedBeats(own, statuses) for own in range(2))
    statuses[1].phase("n1", "opens its channels")
    second.send(Beat(1, "n1", 2**40, 3, "opens its channels"))
    assert first.last() == [Beat(0, "n0", 0, 0, ""), Beat(1, "n1", 2**40, 3, "opens its channels")]
    assert not first.alarm()
    second.raise_alarm()
    second.send(Beat(1, "n1", 5, 3, "opens its channels"))
    assert first.alarm()
    assert second.alarm()


@pytest.mark.parametrize(("hang_seconds", "expected"), [(20, 20), (300, 300), (3600, 600)])
def test_ranks_wait_for_each_other_for_ten_minutes_unless_the_suite_says_less(
    monkeypatch, hang_seconds, expected
):
    waited = []

    def join(placement, timeout_seconds, refusal):
        waited.append(timeout_seconds)
        raise Refused("enough")

    monkeypatch.setattr(rank, "join", join)
    suite = load("demo").model_copy(update={"hang_seconds": hang_seconds})
    placement = Placement(1, 4, 1, "node", "srun", Address("127.0.0.1", 1, "srun 7.0.1"))
    cell = cells("demo")[0]
    code = rank.run(cell, Path("results"), suite, placement, (), 0.0, False, lambda attempt: 0)
    assert code == rank.BAD_INPUT
    assert waited == [expected]
