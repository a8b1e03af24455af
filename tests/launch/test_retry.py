"""What a run comes to, from what its processes leave; and nothing from the exit codes of plug-ins."""

import signal
from dataclasses import replace

import pytest

from tests import sound
from thinwire.base.errors import ResourceError, UserError
from thinwire.config.cell import sources
from thinwire.config.expand import cells
from thinwire.launch import retry, train_block
from thinwire.launch.retry import AttemptEnd, until_it_ends
from thinwire.launch.run_processes import ExitReport, How
from thinwire.records import record
from thinwire.records.provenance import now
from thinwire.train.result_files import partial_folder, record_folder

CELL = cells("demo")[0]
TERM = signal.SIGTERM


def rank(number, how, what="", phase="runs"):
    return ExitReport(how, what, number, f"n{number}", phase, "computes")


KILLED = rank(1, How.DIED, "SIGKILL")
KILLED_WORDS = "rank 1 on n1 was killed by SIGKILL while it computes"
EARLY = [rank(0, How.LOST, "x", "opens its channels"), rank(1, How.GONE, phase="joins the others")]
ABSENT = rank(0, How.ABSENT, phase="")
STOPPED = AttemptEnd([ExitReport(How.INTERRUPTED, str(int(TERM)))])
PUBLISHES = "publishes"  # this attempt makes a record


def publishes(results, status="diverged", in_place=True):
    provenance = {"ended": now(), "sources_sha256": sources(CELL)}
    made = sound.made(CELL, [], status=status, reason="a reason", result=None, provenance=provenance)
    partial = partial_folder(results, CELL)
    partial.mkdir(parents=True, exist_ok=True)
    record.write_aside(partial, made, [], [])
    if in_place:
        record.put_in_place(partial, record_folder(results, CELL))


def run(results, *ends, hold=False, cell=CELL, **how):
    """The exit code of a run whose attempts end like this, and the lines of its log."""
    left, lines = list(ends), []

    def start(published):
        end = left.pop(0)
        if end is PUBLISHES:
            assert not published()
            publishes(results, **how)
            return AttemptEnd([])
        return end if isinstance(end, AttemptEnd) else AttemptEnd(end)

    code = until_it_ends(cell, results, start, hold, lines.append)
    assert not left
    return code, lines


def published(results):
    path = record_folder(results, CELL) / record.RUN
    return record.read(path) if path.exists() else None


@pytest.mark.parametrize(
    ("ends", "code", "reason"),
    [
        ([PUBLISHES], 0, "a reason"),
        ([[KILLED], [KILLED], PUBLISHES], 0, "a reason"),
        ([[KILLED], [KILLED], [KILLED]], 1, KILLED_WORDS),
        ([[rank(0, How.FAILED, "out of luck"), KILLED]], 1, "rank 0 on n0: out of luck"),
        (
            [[ExitReport(How.EXITED, "0")]],
            1,
            "the process ended with exit code 0, and thinwire did not end it",
        ),
        # An interruption publishes nothing and is not tried again.
        ([STOPPED], 128 + TERM, None),
        ([AttemptEnd([KILLED], TERM)], 128 + TERM, None),
        ([AttemptEnd([ABSENT], TERM)], 128 + TERM, None),
    ],
)
def test_what_attempts_come_to(tmp_path, ends, code, reason):
    found, lines = run(tmp_path, *ends)
    assert found == code
    assert (published(tmp_path) and published(tmp_path).reason) == reason
    lost = sum(end == [KILLED] for end in ends[:-1])
    assert lines[:lost] == [
        f"{CELL.path}: {KILLED_WORDS}: attempt {number} of 3" for number in range(2, 2 + lost)
    ]


@pytest.mark.parametrize(
    ("ends", "sentence"),
    [
        ([EARLY] * 3, "could not begin: rank 1 on n1 is gone; it last computes"),
        ([[KILLED, rank(2, How.TROUBLE, "the disk is full")]], "rank 2 on n2: the disk is full"),
        (
            [AttemptEnd([ABSENT], 0, " (srun ended with exit code 1)")],
            r"no process of .* came up \(srun ended with exit code 1\)",
        ),
    ],
)
def test_what_lies_around_a_run_is_never_a_result(tmp_path, ends, sentence):
    with pytest.raises(UserError, match=sentence):
        run(tmp_path, *ends)
    assert published(tmp_path) is None


ON_GPUS = replace(CELL, device="cuda", transport="processes", workers=2, nodes=1)
ON_TWO_NODES = replace(CELL, transport="processes", workers=4, nodes=2)
LOST = rank(0, How.LOST, "x")
ABORT = rank(1, How.DIED, "SIGABRT (gloo aborts if calls differ in size)")
KILLED_ELSEWHERE = rank(0, How.DIED, "SIGKILL")
SILENT = [rank(0, How.SILENT, "rank 1 on n1 has not been heard of"), rank(1, How.GONE)]


@pytest.mark.parametrize(
    ("cell", "ends", "sentence"),
    [
        (ON_GPUS, [[KILLED]] * 3, "lost processes in 3 attempts, all on n1: see whether it works, or start"),
        (
            ON_GPUS,
            [[LOST, KILLED_ELSEWHERE], [ABORT], [ABORT, LOST]],
            "by an abort, as after a fault of a GPU",
        ),
        (
            ON_TWO_NODES,
            [[LOST, KILLED], SILENT, [KILLED, LOST]],
            "3 attempts, all on n1: .* killed by SIGKILL",
        ),
        (ON_TWO_NODES, [[LOST, KILLED], [KILLED_ELSEWHERE, LOST], SILENT], None),
        (ON_TWO_NODES, [[LOST, ABORT], [rank(0, How.DIED, "SIGABRT"), LOST], [LOST, ABORT]], None),
        (replace(ON_TWO_NODES, transport="emulated"), [[LOST, KILLED]] * 3, None),
        (CELL, [[KILLED]] * 3, None),
    ],
)
def test_a_host_on_which_all_attempts_lose_processes_is_to_blame_and_not_the_method(
    tmp_path, cell, ends, sentence
):
    if sentence is None:
        assert run(tmp_path, *ends, cell=cell)[0] == 1
        return
    with pytest.raises(ResourceError, match=sentence):
        run(tmp_path, *ends, cell=cell)
    assert published(tmp_path) is None


def test_a_failure_that_is_published_is_the_result(tmp_path):
    assert run(tmp_path, PUBLISHES, status="failed")[0] == 1


def test_a_record_that_lacked_only_the_last_rename_is_published(tmp_path):
    assert run(tmp_path, PUBLISHES, in_place=False)[0] == 0
    assert published(tmp_path).status == "diverged"


def test_an_earlier_record_is_not_taken_for_this_ones(tmp_path):
    publishes(tmp_path)
    assert run(tmp_path, [ExitReport(How.EXITED, "0")])[0] == 1
    assert published(tmp_path).status == "failed"


def test_a_held_record_stays_aside(tmp_path, monkeypatch):
    monkeypatch.setattr(retry, "finished", lambda cell, results: False)
    assert run(tmp_path, PUBLISHES, hold=True, in_place=False)[0] == 0
    assert published(tmp_path) is None
    assert (partial_folder(tmp_path, CELL) / record.RUN).exists()


@pytest.mark.parametrize("code", [0, 1])
def test_a_run_without_a_record_is_none_whatever_its_exit_code(tmp_path, monkeypatch, code):
    """A plug-in that ends the process at its import; the other runs of its block go on."""
    block = cells("demo")[:2]
    monkeypatch.setattr(train_block, "record_keys", lambda block, results: ["a", "b"])
    monkeypatch.setattr(train_block, "_local_starter", lambda *_: None)
    monkeypatch.setattr(train_block, "_train", lambda cell, *_: code if cell == block[0] else 143)
    lines = []
    assert train_block.train_block(block, tmp_path, 2, lambda attempt: 0, lines.append) in (2, 143)
    assert sum("could not go on, exit code 2" in line for line in lines) == 1
    assert sum("interrupted by SIGTERM" in line for line in lines) == 1
