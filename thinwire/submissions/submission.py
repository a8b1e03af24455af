"""A submission: a folder with the method of somebody and its records in a track; how it is packed and read.

A *track* is a suite in `config/tracks/` that anybody may enter. `submissions/NAME/` has

- `methods/NAME.py`, and its entry if it has one, so that the folder is one of plug-ins;
- `runs/`, with the records of the track's cells for this method;
- `README.md`, by its author, and `submission.yaml`, which `thinwire submit` writes;
- `score.json`, once somebody else has repeated cells (`thinwire.submissions.score`).

`submissions/sceptical/NAME/` has the same, and names the row of the track that it contradicts.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from thinwire import RULES_VERSION, plugins
from thinwire.base import folders
from thinwire.base.errors import UserError, nearest
from thinwire.base.files import publish, writing
from thinwire.base.options import Strict
from thinwire.config import yaml_file
from thinwire.config.cell import Cell
from thinwire.config.expand import cells
from thinwire.config.suite import ENTRIES, suite_names
from thinwire.config.yaml_file import Label
from thinwire.plugins import Plugin
from thinwire.submissions import reproduction
from thinwire.train.record_check import RecordCheck, SoundRecord, is_there
from thinwire.train.result_files import record_folder, run_command

TRACKS = "tracks/"
ABOUT, README = "submission.yaml", "README.md"
SCEPTICAL = "sceptical"
_README = """\
# {name}

{title}

- **What:** the update rule in a sentence, and how it deviates from the publication.
- **Publication:** authors, title, number; or "none".
- **How tuned:** the options and learning rates that you tried, how many trials, on which data.
- **Hardware:** {processor}; {minutes:.0f} minutes of training in all.
"""
# The outcome of each check of the contract, by name, of the method in this file.
Contract = Callable[[Path], dict[str, str]]


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


def submit(name: str, track: str, results: Path, contradicts: str | None, contract: Contract) -> Path:
    """Write `submissions/NAME/` in the folder of one's own, and return it.

    Args:
        name: of a method there.
        track: its name.
        results: the folder with the records.
        contradicts: the label of the method whose row in the track these results contradict.
        contract: performs the checks of the contract.

    Raises:
        UserError: the method or a record cannot be submitted; nothing is written.
    """
    plugin, home = _own(name)
    for other in every():
        if other.name == name:
            raise UserError(f"there is a submission {name} already, {other.folder}: take another name")
    made = verified(results, track, name)
    if contradicts is not None and contradicts not in _rows(track):
        raise UserError(f"--contradicts {contradicts}: {track} has no such row")
    failed = [check for check, outcome in contract(plugin.path).items() if outcome == "failed"]
    if failed:
        raise UserError(f"{name} breaks the contract ({failed[0]}): `thinwire check {name}` says where")
    about = _about(track, made, contradicts)
    target = home / folders.SUBMISSIONS / name
    if contradicts is not None:
        target = target.parent / SCEPTICAL / name
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{name}.", dir=target.parent) as temporary:
            scratch = Path(temporary) / name
            _pack(scratch, plugin, made, results)
            if (entry := home / ENTRIES / f"{name}.yaml").exists():
                (scratch / ENTRIES).mkdir(parents=True)
                shutil.copy(entry, scratch / ENTRIES)
            (scratch / ABOUT).write_text(yaml_file.text_of(about.model_dump(exclude_none=True)))
            seconds = sum(each.run.result.seconds.train for each in made if each.run.result)
            text = _README.format(
                name=name, title=plugin.title, processor=about.processor, minutes=seconds / 60
            )
            (scratch / README).write_text(text)
            publish(scratch, target)
    return target


def _own(name: str) -> tuple[Plugin, Path]:
    """The method of this name, and the folder of one's own that it must be in."""
    home, plugin = folders.own(), plugins.get("method", name)
    if home is None or not folders.belongs(plugin.path, home):
        raise UserError(
            f"{name} is a method of the project: only one in a folder of your own can be submitted, and "
            f"`thinwire new method NAME` writes one outside of a clone"
        )
    return plugin, home


def _rows(track: str) -> set[str]:
    """The methods that a track compares: its own, and submitted ones."""
    submitted = {each.name for each in every() if each.about.track == track}
    return {cell.method.label for cell in cells(track)} | submitted


def _pack(scratch: Path, plugin: Plugin, made: list[SoundRecord], results: Path) -> None:
    methods = scratch / "methods"
    methods.mkdir(parents=True)
    if plugin.path.name == "__init__.py":
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(plugin.path.parent, methods / plugin.name, ignore=ignored)
    else:
        shutil.copyfile(plugin.path, methods / plugin.path.name)
    for each in made:
        shutil.copytree(record_folder(results, each.cell), record_folder(scratch, each.cell))


def _about(track: str, made: list[SoundRecord], contradicts: str | None) -> About:
    known = [each.run.provenance for each in made]
    revision = _once((one.get("git") or {}).get("revision") for one in known)
    return About(
        track=track,
        rules=RULES_VERSION,
        date=datetime.now(UTC).date().isoformat(),
        thinwire=f"{_once(one.get('thinwire') for one in known)}, revision {revision}",
        torch=_once(one.get("torch_build") for one in known),
        processor=_once((one.get("hardware") or {}).get("processor") for one in known),
        contradicts=contradicts,
    )


def _once(values: Iterable[object]) -> str:
    """What the records say, which are mostly from one machine."""
    return ", ".join(dict.fromkeys(str(value) for value in values))
