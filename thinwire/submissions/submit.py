"""Packs a method and its records in a track as a submission, or says in one sentence what is missing."""

import shutil
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from thinwire import RULES_VERSION, plugins
from thinwire.base import folders
from thinwire.base.errors import UserError
from thinwire.base.files import publish, writing
from thinwire.config import yaml_file
from thinwire.config.expand import cells
from thinwire.config.track_entries import ENTRIES
from thinwire.plugins import Plugin
from thinwire.submissions.submission import ABOUT, README, SCEPTICAL, About, every, verified
from thinwire.train.record_check import SoundRecord
from thinwire.train.result_files import record_folder

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
