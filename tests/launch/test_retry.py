"""What a run comes to, from what its processes leave; and nothing from the exit codes of plug-ins."""

import signal

import pytest

from thinwire import record
from thinwire.config.cell_sources import sources
from thinwire.config.expand_suite import cells
from thinwire.errors import UserError
from thinwire.launch import retry, train_block
from thinwire.launch.exit_report import ExitReport
from thinwire.launch.retry import AttemptEnd, until_it_ends
from thinwire.provenance import now
from thinwire.record import Record
from thinwire.train.result_folders import partial_folder, record_folder

CELL = cells("demo")[0]
KILLED = ExitReport(rank=1, host="n1", died="SIGKILL", doing="computes")
GONE = ExitReport(rank=1, host="n1", vanished=True, phase="joins the others")


def publishes(results, status="diverged", aside=False, in_place=True):
    made = Record(
        kind="inprocess",
        status=status,
        reason="a reason",
        cell=CELL.identity(),
        fingerprint=CELL.fingerprint,
        method_options={},
        model_options={},
        provenance={"ended": now(), "sources_sha256": sources(CELL)},
    )
    partial = partial_folder(results, CELL)
    partial.mkdir(parents=True, exist_ok=True)
    record.write_aside(partial, made, [], [])
    if in_place:
        record.put_in_place(partial, record_folder(results, CELL))


class Starts:
    """Gives one end after the other; what is called does something first."""

    def __init__(self, *ends):
        self.ends = list(ends)
        self.logged = []

    def __call__(self, published):
        end = self.ends.pop(0)
        if callable(end):
            assert not published()
            end()
            assert published() in (True, False)
            end = []
        return end if isinstance(end, AttemptEnd) else AttemptEnd(end)

    def run(self, results, hold=False):
        return until_it_ends(CELL, results, self, hold, self.logged.append)


def published(results):
    path = record_folder(results, CELL) / record.RUN
    return record.read(path) if path.exists() else None


def test_a_published_record_is_the_result_whatever_else_was_left(tmp_path):
    assert Starts(lambda: publishes(tmp_path)).run(tmp_path) == 0
    assert Starts(lambda: publishes(tmp_path, "failed")).run(tmp_path) == 1


def test_a_record_that_lacked_only_the_last_rename_is_published(tmp_path):
    starts = Starts(lambda: publishes(tmp_path, in_place=False))
    assert starts.run(tmp_path) == 0
    assert published(tmp_path).status == "diverged"


def test_an_earlier_record_is_not_taken_for_this_ones(tmp_path):
    publishes(tmp_path)
    starts = Starts([ExitReport(exited=0)])
    assert starts.run(tmp_path) == 1
    assert published(tmp_path).reason == "the process ended with exit code 0, and thinwire did not end it"


def test_lost_ranks_are_tried_again_and_then_a_result(tmp_path):
    starts = Starts([KILLED], [KILLED], lambda: publishes(tmp_path))
    assert starts.run(tmp_path) == 0
    assert starts.logged == [
        f"{CELL.path}: rank 1 on n1 was killed by SIGKILL while it computes: attempt {number} of 3"
        for number in (2, 3)
    ]
    assert Starts([KILLED], [KILLED], [KILLED]).run(tmp_path) == 1
    assert published(tmp_path).reason == "rank 1 on n1 was killed by SIGKILL while it computes"


def test_a_rank_lost_before_the_method_runs_is_no_result(tmp_path):
    early = [ExitReport(rank=0, host="n0", phase="opens its channels", lost="x"), GONE]
    with pytest.raises(UserError, match="could not begin: rank 1 on n1 is gone"):
        Starts(early, early, early).run(tmp_path)
    assert published(tmp_path) is None


def test_a_failure_of_the_method_is_final(tmp_path):
    starts = Starts([ExitReport(rank=0, host="n0", outcome=("failed", "out of luck")), KILLED])
    assert starts.run(tmp_path) == 1
    assert published(tmp_path).reason == "rank 0 on n0: out of luck"


def test_a_failure_around_a_run_is_never_a_result(tmp_path):
    left = [KILLED, ExitReport(rank=2, host="n2", trouble="the disk is full")]
    with pytest.raises(UserError, match="rank 2 on n2: the disk is full"):
        Starts(left).run(tmp_path)
    assert published(tmp_path) is None


@pytest.mark.parametrize(
    "end",
    [
        AttemptEnd([ExitReport(interrupted=signal.SIGTERM)]),
        AttemptEnd([KILLED], signal.SIGTERM),
        # It came so early that nobody could report.
        AttemptEnd([ExitReport(rank=0, vanished=True, phase="")], signal.SIGTERM),
    ],
    ids=["saved", "stopped at once", "early"],
)
def test_an_interruption_publishes_nothing_and_is_not_tried_again(tmp_path, end):
    assert Starts(end).run(tmp_path) == 128 + signal.SIGTERM
    assert published(tmp_path) is None


def test_a_command_that_starts_no_rank_is_no_result(tmp_path):
    nobody = AttemptEnd([ExitReport(rank=0, vanished=True, phase="")], 0, " (srun ended with exit code 1)")
    with pytest.raises(UserError, match=r"no process of .* came up \(srun ended with exit code 1\)"):
        Starts(nobody).run(tmp_path)


def test_a_held_record_stays_aside(tmp_path, monkeypatch):
    monkeypatch.setattr(retry, "finished", lambda cell, results: False)
    assert Starts(lambda: publishes(tmp_path, in_place=False)).run(tmp_path, hold=True) == 0
    assert published(tmp_path) is None
    assert (partial_folder(tmp_path, CELL) / record.RUN).exists()


@pytest.mark.parametrize("code", [0, 1])
def test_a_run_without_a_record_is_none_whatever_its_exit_code(tmp_path, monkeypatch, code):
    """A plug-in that ends the process at its import; the other runs of its block go on."""
    block = cells("demo")[:2]
    monkeypatch.setattr(train_block.reuse_record, "keys", lambda block, results: ["a", "b"])
    monkeypatch.setattr(train_block, "_local_starter", lambda *_: None)
    monkeypatch.setattr(train_block, "_train", lambda cell, *_: code if cell == block[0] else 143)
    lines = []
    assert train_block.train_block(block, tmp_path, 2, lambda attempt: 0, lines.append) in (2, 143)
    assert sum("could not go on, exit code 2" in line for line in lines) == 1
    assert sum("interrupted by SIGTERM" in line for line in lines) == 1
