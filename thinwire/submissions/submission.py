"""A submission: a folder with the method of somebody and its records in a track; and how far it is proved.

A *track* is a suite in `config/tracks/` that anybody may enter. `submissions/NAME/` has

- `methods/NAME.py`, and its entry if it has one, so that the folder is one of plug-ins;
- `runs/`, with the records of the track's cells for this method;
- `README.md`, by its author, and `submission.yaml`, which `thinwire submit` writes;
- `score.json`, once somebody else has repeated cells: what was measured, and no verdict. It is no signature:
  whoever merges it must have made it.

`submissions/sceptical/NAME/` has the same, and names the row of the track that it contradicts.

The *tier* of a submission is computed from its files whenever it is read, and typed nowhere:

- *reported*: its records verify;
- *repeated*: cells that were drawn at random gave the same again;
- *proved*: besides, its method keeps the contract, and equals SSGD where it says so.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Literal, NamedTuple

from pydantic import ValidationError

from thinwire import plugins
from thinwire.base import digests, folders
from thinwire.base.errors import UserError, nearest
from thinwire.base.options import Strict
from thinwire.config import yaml_file
from thinwire.config.cell import Cell
from thinwire.config.expand import cells
from thinwire.config.suite import suite_names
from thinwire.config.yaml_file import Label
from thinwire.plugins import Plugin
from thinwire.records.provenance import git_state
from thinwire.records.result import Schema
from thinwire.submissions import reproduction
from thinwire.submissions.reproduction import Facts, Reproduction, Verdict
from thinwire.train.record_check import RecordCheck, SoundRecord, is_there
from thinwire.train.result_files import record_folder, run_command

TRACKS = "tracks/"
ABOUT, README, SCORE = "submission.yaml", "README.md", "score.json"
SCEPTICAL = "sceptical"
Tier = Literal["reported", "repeated", "proved"]


class About(Strict):
    """What `submission.yaml` has: when and where the records were made, in words."""

    track: str
    rules: int
    date: str
    thinwire: str
    torch: str
    processor: str
    contradicts: Label | None = None


class Submission(NamedTuple):
    """One submission."""

    folder: Path
    about: About

    @property
    def name(self) -> str:
        """The name of the method."""
        return self.folder.name


def read(folder: Path) -> Submission:
    """The submission in a folder, or a UserError: there is none, or its `submission.yaml` is not sound."""
    path = folder.absolute() / ABOUT
    return Submission(path.parent, yaml_file.read(path, About, "a submission", "submissions/README.md"))


def every() -> Iterator[Submission]:
    """All submissions of the project, and of the folder of one's own."""
    for home in folders.every():
        for pattern in (f"*/{ABOUT}", f"{SCEPTICAL}/*/{ABOUT}"):
            yield from (read(path.parent) for path in sorted((home / folders.SUBMISSIONS).glob(pattern)))


def holding(record: Path) -> Path | None:
    """The folder of the submission that a record is in, if it is in one."""
    return next((folder for folder in record.absolute().parents if (folder / ABOUT).is_file()), None)


def cells_of(track: str, name: str) -> list[Cell]:
    """The cells of a method in a track, or a UserError: there is no such track, or no such method in it."""
    tracks = [suite for suite in suite_names() if suite.startswith(TRACKS)]
    if track not in tracks:
        raise UserError(f"there is no track {track!r}: config/ has {', '.join(tracks) or 'none'}")
    every = cells(track)
    own = [cell for cell in every if cell.method.label == name]
    if not own:
        known = {cell.method.label for cell in every}
        raise UserError(f"{track} has no method {name!r}; the nearest is {nearest(name, known)}")
    return own


def verified(results: Path, track: str, name: str, archived: bool = False) -> list[SoundRecord]:
    """The records of a method in a track: all of them, each sound, and of the method as it is.

    Args:
        results: the folder with the records; that with the method is the folder of one's own.
        track: its name.
        name: of the method.
        archived: may files of the engine have been edited since, under the same rules?

    Raises:
        UserError: a record is missing or does not verify; the sentence is about the first one.
    """
    own = cells_of(track, name)
    places = {record_folder(results, cell): cell for cell in own}
    missing = [cell for place, cell in places.items() if not is_there(place)]
    if missing:
        raise UserError(
            f"{len(missing)} of {len(own)} records of {name} in {track} are missing: "
            f"{run_command(missing[0], results)} makes the first one"
        )
    check, found = RecordCheck(results, archived), []
    for place, cell in places.items():
        reproduction.read(place)  # says it if the rules are others now
        checked = check.check(place)
        problems = checked.problems
        problems += [
            f"{place} was made before the file of the {kind} was edited: {run_command(cell, results)} makes "
            "it again"
            for kind in checked.edited
            if kind == f"method {name}"
        ]
        if problems or checked.record is None:
            raise UserError(problems[0])
        if checked.record.run.status not in ("done", "diverged"):
            run = checked.record.run
            raise UserError(f"the run of {cell.path} is {run.status} ({run.reason}), which is no result")
        found.append(checked.record)
    return found


def verified_submission(submission: Submission) -> list[SoundRecord]:
    """The records of a submission, as `verified` gives them, with its errors."""
    with folders.named(submission.folder):
        return verified(submission.folder, submission.about.track, submission.name, archived=True)


def method_of(submission: Submission) -> Plugin:
    with folders.named(submission.folder):
        return plugins.get("method", submission.name)


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


def write_score(
    submission: Submission, seed: int, repeats: dict[str, Facts], outcomes: dict[str, str], method_sha256: str
) -> None:
    """Write `score.json` of a submission whose records verify.

    Args:
        submission: all of it.
        seed: that drew the cells.
        repeats: what the repeated runs gave, by the path of their cell.
        outcomes: of each check of the contract, by name.
        method_sha256: of the method that was checked.
    """
    made = Score(
        date=datetime.now(UTC).date().isoformat(),
        revision=git_state()["revision"],
        method_sha256=method_sha256,
        seed=seed,
        repeats=repeats,
        contract=outcomes,
    )
    digests.write_json(submission.folder / SCORE, made.model_dump(mode="json"))


def tier(submission: Submission, records: Sequence[SoundRecord]) -> Tier:
    """How far a submission is proved, by its files as they are now; its records are those that verify."""
    made = {each.cell.path: each for each in records}
    score = _read_score(submission.folder / SCORE)
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


def _read_score(path: Path) -> Score | None:
    """What was measured; None if nothing was, or if somebody has changed it since."""
    try:
        return Score.model_validate(digests.read_json(path))
    except (UserError, ValidationError):
        return None
