"""Trains the cell of a record again, and says what is the same, and otherwise where the runs part."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from statistics import stdev
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from thinwire import RULES_VERSION
from thinwire.base import digests
from thinwire.base.errors import UserError
from thinwire.config.cell import Cell, cell_of, prepares
from thinwire.config.suite import load
from thinwire.data.dataset import MANIFEST
from thinwire.launch.placement import gpus_claimed, gpus_of
from thinwire.launch.retry import until_it_ends
from thinwire.records import record
from thinwire.records.invariants import require_invariants
from thinwire.records.result import Schema
from thinwire.train.record_check import SoundRecord
from thinwire.train.result_files import data_command, data_folder, record_folder

if TYPE_CHECKING:
    from thinwire.train.run_cell import Attempt

# Share of the sound repetitions that lie outside of the interval by chance.
_LEVEL = 0.05


class Verdict(StrEnum):
    """What is the same in a record and in a repeated run of its cell."""

    IDENTICAL = "identical to the bit"
    INSIDE = "identical bytes of traffic, and the score inside the paired interval"
    DIFFERENT = "different"


class Facts(Schema):
    """What is compared of a run; its record has it all."""

    fingerprint: str
    status: str
    trajectory_sha256: str  # of the initial weights, and all that curve and traffic say, without clocks
    traffic_sha256: str
    score: float | None
    started: str
    machine: dict[str, str]  # what decides how sums are rounded


def read(folder: Path) -> SoundRecord:
    """Read the record in a folder, of any suite; a `UserError` if it is unsound, or of other rules."""
    run = record.read(folder / record.RUN, "take the record as it was written")
    if (rules := run.cell.get("rules")) != RULES_VERSION:
        raise UserError(
            f"{folder / record.RUN} was made under version {rules} of the rules, and this code follows "
            f"version {RULES_VERSION}: take the revision that it names, or train it again"
        )
    cell = cell_of(run.cell)
    return SoundRecord(cell, run, *require_invariants(folder, run, cell))


def facts(made: SoundRecord) -> Facts:
    """What is compared of a run."""
    run, known = made.run, made.run.provenance
    traffic = repr(made.traffic.to_pydict())
    weights = known.get("initial_weights_sha256")
    hardware = known.get("hardware") or {}
    return Facts(
        fingerprint=run.fingerprint,
        status=run.status,
        trajectory_sha256=digests.of_text(repr([run.status, weights, _timeless(made.curve), traffic])),
        traffic_sha256=digests.of_text(traffic),
        score=None if run.result is None else getattr(run.result, run.learns.test_column),
        started=str(known.get("started")),
        machine={
            "processor": str(hardware.get("processor")),
            "device": str(hardware.get("device")),
            "torch": str(known.get("torch_build")),
        },
    )


def judge(there: Facts, here: Facts, scores: Sequence[float]) -> Verdict:
    """Compare what a record has with what the repeated run gave.

    `scores` are of the runs of this cell that differ only in their seeds, that of the record included.
    """
    if there.trajectory_sha256 == here.trajectory_sha256:
        return Verdict.IDENTICAL
    # One machine gives the same bits with the same packages, so that chance explains nothing there.
    by_rounding = there.machine != here.machine and there.status == here.status == "done"
    if not by_rounding or there.traffic_sha256 != here.traffic_sha256 or len(scores) < 2:
        return Verdict.DIFFERENT
    if there.score is None or here.score is None:
        return Verdict.DIFFERENT
    inside = abs(here.score - there.score) <= _most_by_chance(scores)
    return Verdict.INSIDE if inside else Verdict.DIFFERENT


def _most_by_chance(scores: Sequence[float]) -> float:
    """The most by which a repeated run differs from the first one, with a probability of 95 %.

    Both are draws from the normal distribution of the scores: their difference has twice its variance.
    """
    import scipy.stats  # only here, because it takes a second

    t = scipy.stats.t.ppf(1 - _LEVEL / 2, len(scores) - 1)
    return float(t * stdev(scores) * math.sqrt(2))


class Reproduction(NamedTuple):
    """What a repeated run of a record's cell gave."""

    verdict: Verdict
    facts: Facts
    difference: str | None  # where the two runs part first; None: nowhere
    scores: tuple[float | None, float | None]  # that of the record, and that of the repeated run
    others: list[str]  # in what the machine differs, and torch
    edited: list[str]  # the kinds of files of code that were edited since


def reproduce(folder: Path, results: Path) -> Reproduction:
    """Train the cell of a record again, in a temporary folder, and compare.

    Args:
        folder: of the record; that of its method is the folder of one's own.
        results: the folder with the data.

    Raises:
        UserError: the record is not sound, its data or its plug-ins are missing, or training cannot begin.
    """
    there = read(folder)
    with _trained_again(there.cell, results) as again:
        here = read(again)
    ours, theirs = facts(here), facts(there)
    verdict = judge(theirs, ours, scores_beside(folder, there))
    others = [
        f"{what}: {theirs.machine[what]} there, {value} here"
        for what, value in ours.machine.items()
        if theirs.machine[what] != value
    ]
    used, now = (made.run.provenance.get("sources_sha256") or {} for made in (there, here))
    edited = [kind for kind in now if used.get(kind) != now[kind]]
    difference = None if verdict is Verdict.IDENTICAL else first_difference(there, here)
    return Reproduction(verdict, ours, difference, (theirs.score, ours.score), others, edited)


def scores_beside(folder: Path, made: SoundRecord) -> list[float]:
    """The scores of a record and of those beside it that are done and differ only in their repetition."""
    found = []
    for path in sorted(folder.absolute().parent.glob(f"seed*/{record.RUN}")):
        try:
            run = record.read(path)
        except UserError:
            continue
        same = {**run.cell, "repetition": None} == {**made.run.cell, "repetition": None}
        score = None if run.result is None else getattr(run.result, run.learns.test_column)
        if same and run.status == "done" and score is not None:
            found.append(score)
    return found


def first_difference(there: SoundRecord, here: SoundRecord) -> str:
    """Where two runs of a cell part first, by their records, which hold no weights of single steps."""
    old, new = there.run.provenance, here.run.provenance
    theirs_data, our_data = (dict(known.get("data_sha256") or {}) for known in (old, new))
    if any(theirs_data.get(name) != our_data.get(name) for name in {*theirs_data, *our_data} - {MANIFEST}):
        return "in the data"
    if old.get("initial_weights_sha256") != new.get("initial_weights_sha256"):
        return "at step 0, in the initial weights"
    if there.run.partition != here.run.partition:
        return "in how the workers share the data"
    theirs, ours = _rows(there), _rows(here)
    for place in sorted(theirs.keys() | ours.keys()):
        step, _, what = place
        before, after = theirs.get(place), ours.get(place)
        if before is None or after is None:
            return f"at step {step}, where only the run {'here' if before is None else 'there'} has {what}"
        for name, value in before.items():
            if repr(value) != repr(after.get(name)):
                return f"at step {step}, in {name} of {what}: {value} there, {after.get(name)} here"
    return f"at the end: {there.run.status} there, {here.run.status} here"


def _rows(made: SoundRecord) -> dict[tuple[int, int, str], dict[str, object]]:
    """The rows of a run by step and name, those of the traffic first."""
    names = ("channel", "verb", "kind")
    found: dict[tuple[int, int, str], dict[str, object]] = {}
    for row in made.traffic.to_pylist():
        found[row["step"], 0, f"the traffic ({', '.join(row[name] for name in names)})"] = row
    for place, row in enumerate(pa.table(_timeless(made.curve)).to_pylist()):
        found[row["step"], 1 + place, "the evaluation"] = row
    return found


def _timeless(curve: pa.Table) -> dict[str, list[object]]:
    return {name: column for name, column in curve.to_pydict().items() if not name.endswith("_seconds")}


@contextmanager
def _trained_again(cell: Cell, results: Path) -> Iterator[Path]:
    """Train a cell in a temporary folder, and give the folder of its new record."""
    if not (data_folder(results, cell.dataset) / MANIFEST).is_file():
        raise UserError(f"the data of {cell.path} are missing: {data_command(cell, results)} lays them out")
    suite = load(cell.suite)
    from thinwire.launch import local_processes  # torch, which a record that is refused does not need

    with TemporaryDirectory(prefix="thinwire-again-") as temporary, gpus_claimed(gpus_of(cell)):
        scratch = Path(temporary)
        (scratch / "data").symlink_to((results / "data").absolute())
        if prepares(cell.method.use):
            local_processes.run_preparation(cell.preparing, scratch, suite.checkpoint_every_seconds)
        start = local_processes.starter(cell, suite, scratch, False, _train)
        if until_it_ends(cell, scratch, start, False, lambda line: None) > 1:
            raise KeyboardInterrupt
        yield record_folder(scratch, cell)


def _train(attempt: "Attempt") -> int:
    return int(attempt.run(lambda trainer: None).status == "failed")
