"""A submission: a folder with the method of somebody, and its records in a track.

A *track* is a suite in `config/tracks/` that anybody may enter. `submissions/NAME/` has

- `methods/NAME.py`, and its entry if it has one, so that the folder is one of plug-ins;
- `runs/`, with the records of the track's cells for this method;
- `README.md`, by its author, and `submission.yaml`, which `thinwire submit` writes;
- `score.json`, once somebody else has repeated cells (`thinwire.submissions.score`).

`submissions/sceptical/NAME/` has the same, and names the row of the track that it contradicts.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from thinwire import plugins
from thinwire.base import folders
from thinwire.base.errors import UserError
from thinwire.base.names import nearest
from thinwire.config import yaml_file
from thinwire.config.cell import Cell
from thinwire.config.entry_schema import Label
from thinwire.config.expand import cells
from thinwire.config.suite import suite_names
from thinwire.optim.recipe import Strict
from thinwire.plugins import Plugin
from thinwire.submissions import reproduction
from thinwire.train.record_check import RecordCheck, SoundRecord
from thinwire.train.result_files import record_folder, run_command
from thinwire.train.reuse import is_there

TRACKS = "tracks/"
ABOUT, README = "submission.yaml", "README.md"
SCEPTICAL = "sceptical"


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
    """Read the submission in a folder.

    Raises:
        UserError: there is none, or its `submission.yaml` is not sound.
    """
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
    """The cells of a method in a track.

    Raises:
        UserError: there is no such track, or it has no cell of this method.
    """
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
    """The records of a submission.

    Raises:
        UserError: as `verified`.
    """
    with folders.named(submission.folder):
        return verified(submission.folder, submission.about.track, submission.name, archived=True)


def method_of(submission: Submission) -> Plugin:
    """Its method."""
    with folders.named(submission.folder):
        return plugins.get("method", submission.name)
