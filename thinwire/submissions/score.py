"""Repeats cells of a submission, and computes how far it is proved.

The *tier* of a submission is computed from its files whenever it is read, and typed nowhere:

- *reported*: its records verify;
- *repeated*: cells that were drawn at random gave the same again;
- *proved*: besides, its method keeps the contract, and equals SSGD where it says so.

`score.json` has what was measured, and no verdict. It is no signature: whoever merges it must have made it.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Literal

from pydantic import ValidationError

from thinwire.base import digests, folders
from thinwire.base.errors import UserError
from thinwire.config.cell import Cell
from thinwire.records.provenance import git_state
from thinwire.records.result import Schema
from thinwire.submissions import reproduction
from thinwire.submissions.reproduction import Facts, Reproduction, Verdict
from thinwire.submissions.submission import Contract, Submission, method_of
from thinwire.train.record_check import SoundRecord
from thinwire.train.result_files import record_folder

SCORE = "score.json"
Tier = Literal["reported", "repeated", "proved"]


class Score(Schema):
    """What `score.json` has."""

    date: str
    revision: str | None  # of thinwire
    method_sha256: str
    seed: int  # of the draw of cells
    repeats: dict[str, Facts]  # of the runs that were made again, by the path of their cell
    contract: dict[str, str]  # the outcome of each check, by name


def drawn(made: list[SoundRecord], number: int, seed: int) -> list[Cell]:
    """Cells drawn at random, the same for a seed; a `UserError` if there are fewer, or none is wanted."""
    if not 1 <= number <= len(made):
        raise UserError(
            f"--cells {number}: the submission has {len(made)} records, of which at least 1 is drawn"
        )
    return [each.cell for each in Random(seed).sample(made, number)]


def repeat(submission: Submission, cell: Cell, results: Path) -> Reproduction:
    """Train a cell of a submission again, as `reproduce` does, with its errors."""
    with folders.named(submission.folder):
        return reproduction.reproduce(record_folder(submission.folder, cell), results)


def write(submission: Submission, seed: int, repeats: dict[str, Facts], contract: Contract) -> Score:
    """Perform the contract, and write `score.json` with all that was done.

    Args:
        submission: its records verify.
        seed: that drew the cells.
        repeats: what the repeated runs gave, by the path of their cell.
        contract: performs the checks; if it raises, nothing is written.
    """
    made = Score(
        date=datetime.now(UTC).date().isoformat(),
        revision=git_state()["revision"],
        method_sha256=method_of(submission).sha256,
        seed=seed,
        repeats=repeats,
        contract=contract(method_of(submission).path),
    )
    digests.write_json(submission.folder / SCORE, made.model_dump(mode="json"))
    return made


def tier(submission: Submission, records: Sequence[SoundRecord]) -> Tier:
    """How far a submission is proved, by its files as they are now; its records are those that verify."""
    made = {each.cell.path: each for each in records}
    score = _read(submission.folder / SCORE)
    if score is None or score.method_sha256 != method_of(submission).sha256 or not score.repeats:
        return "reported"
    for path, again in score.repeats.items():
        if path not in made or not _is_repeated(submission, made[path], again):
            return "reported"
    outcomes = score.contract.items()
    equal = any(check.startswith("equals_ssgd") and outcome == "passed" for check, outcome in outcomes)
    return "proved" if equal and "failed" not in score.contract.values() else "repeated"


def _is_repeated(submission: Submission, made: SoundRecord, again: Facts) -> bool:
    """Is this another run of the cell of a record, with the same result?"""
    there = reproduction.facts(made)
    another = (there.started, there.machine) != (again.started, again.machine)
    scores = reproduction.scores_beside(record_folder(submission.folder, made.cell), made)
    same = reproduction.judge(there, again, scores) is not Verdict.DIFFERENT
    return another and same and there.fingerprint == again.fingerprint


def _read(path: Path) -> Score | None:
    """What was measured; None if nothing was, or if somebody has changed it since."""
    try:
        return Score.model_validate(digests.read_json(path))
    except (UserError, ValidationError):
        return None
