"""`thinwire reproduce`, `submit` and `score`: results of others."""

import json
import secrets
import shutil
import sys
from argparse import Namespace
from collections.abc import Iterable
from contextlib import ExitStack, redirect_stdout
from datetime import UTC, datetime
from pathlib import Path
from subprocess import PIPE
from tempfile import TemporaryDirectory

from thinwire import RULES_VERSION, plugins
from thinwire.base import folders
from thinwire.base.errors import UserError
from thinwire.base.files import publish, writing
from thinwire.cli.run import in_a_process
from thinwire.config import yaml_file
from thinwire.config.expand import cells
from thinwire.config.suite import ENTRIES
from thinwire.plugins import Plugin
from thinwire.records.record import RUN
from thinwire.submissions import submission
from thinwire.submissions.reproduction import Reproduction, Verdict, reproduce
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


def reproduce_main(arguments: Namespace) -> int:
    """Train the cell of a record again, and say whether the result is the same."""
    given = arguments.record.absolute()
    folder = given.parent if given.name == RUN else given
    with ExitStack() as stack:
        if (home := submission.holding(folder)) is not None:
            stack.enter_context(folders.named(home))
        if arguments.json:
            stack.enter_context(redirect_stdout(sys.stderr))
        found = reproduce(folder, arguments.results)
    if arguments.json:
        about: dict[str, object] = {
            "record": str(arguments.record),
            "verdict": found.verdict.value,
            "first": found.difference,
        }
        about |= {"others": found.others, "edited": found.edited, "scores": found.scores}
        print(json.dumps({**about, "repeated": found.facts.model_dump()}, indent=2))
    else:
        print(f"{arguments.record}: {_said(found)}")
    return int(found.verdict is Verdict.DIFFERENT)


def submit_main(arguments: Namespace) -> int:
    """Pack a method of one's own and its records in a track."""
    folder = submit(arguments.method, arguments.track, arguments.results, arguments.contradicts)
    print(f"wrote {folder}; next:")
    print(f"  fill in {folder / submission.README}")
    print(f"  thinwire score {folder}")
    return 0


def submit(name: str, track: str, results: Path, contradicts: str | None) -> Path:
    """Write `submissions/NAME/` in the folder of one's own, which has the method, and return it.

    Args:
        name: of the method.
        track: its name.
        results: the folder with the records.
        contradicts: the label of the method whose row in the track these results contradict.

    Raises:
        UserError: the method or a record cannot be submitted; nothing is written.
    """
    plugin, home = _own(name)
    for other in submission.every():
        if other.name == name:
            raise UserError(f"there is a submission {name} already, {other.folder}: take another name")
    made = submission.verified(results, track, name)
    if contradicts is not None and contradicts not in _rows(track):
        raise UserError(f"--contradicts {contradicts}: {track} has no such row")
    failed = [check for check, outcome in _contract(plugin.path).items() if outcome == "failed"]
    if failed:
        raise UserError(f"{name} breaks the contract ({failed[0]}): `thinwire check {name}` says where")
    about = _about(track, made, contradicts)
    target = home / folders.SUBMISSIONS / name
    if contradicts is not None:
        target = target.parent / submission.SCEPTICAL / name
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{name}.", dir=target.parent) as temporary:
            scratch = Path(temporary) / name
            _pack(scratch, plugin, made, results)
            if (entry := home / ENTRIES / f"{name}.yaml").exists():
                (scratch / ENTRIES).mkdir(parents=True)
                shutil.copy(entry, scratch / ENTRIES)
            (scratch / submission.ABOUT).write_text(yaml_file.text_of(about.model_dump(exclude_none=True)))
            seconds = sum(each.run.result.seconds.train for each in made if each.run.result)
            text = _README.format(
                name=name, title=plugin.title, processor=about.processor, minutes=seconds / 60
            )
            (scratch / submission.README).write_text(text)
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
    submitted = {each.name for each in submission.every() if each.about.track == track}
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


def _about(track: str, made: list[SoundRecord], contradicts: str | None) -> submission.About:
    known = [each.run.provenance for each in made]
    revision = _once((one.get("git") or {}).get("revision") for one in known)
    return submission.About(
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


def score_main(arguments: Namespace) -> int:
    """Repeat cells of a submission, perform the contract, and say how far the submission is proved."""
    packed = submission.read(arguments.submission)
    made = submission.verified_submission(packed)
    seed = secrets.randbelow(2**32) if arguments.seed is None else arguments.seed
    drawn = submission.drawn(made, arguments.cells, seed)
    print(f"{len(made)} records verify; {len(drawn)} drawn with --seed {seed}", flush=True)
    repeats = {}
    for cell in drawn:
        found = submission.repeat(packed, cell, arguments.results)
        repeats[cell.path] = found.facts
        print(f"{cell.path}: {_said(found)}", flush=True)
    # Its digest from before the contract: what is edited meanwhile is not what was checked.
    method = submission.method_of(packed)
    digest = method.sha256
    outcomes = _contract(method.path)
    submission.write_score(packed, seed, repeats, outcomes, digest)
    failed = [check for check, outcome in outcomes.items() if outcome == "failed"]
    print(f"the contract: {len(outcomes)} checks, {', '.join(failed) or 'none'} failed")
    tier = submission.tier(packed, made)
    print(f"{packed.name} is {tier}; {packed.folder / submission.SCORE} has what was done")
    return int(tier == "reported" or bool(failed))


def _said(found: Reproduction) -> str:
    """The verdict, and a line for each thing that differs."""
    lines = [found.verdict.value]
    if found.difference is not None:
        lines += ["score: {} there, {} here".format(*found.scores), f"first {found.difference}"]
    lines += [f"another {what}" for what in found.others]
    lines += [f"edited since: the {kind}" for kind in found.edited]
    return "\n  ".join(lines)


def _contract(method: Path) -> dict[str, str]:
    """The outcome of each check of the contract, by name; in a process, which tests leave their marks on."""
    ended = in_a_process("check", str(method), "--json", stdout=PIPE)
    if ended.returncode not in (0, 1):
        raise UserError(ended.stderr.strip().rpartition("\n")[2].removeprefix("thinwire: "))
    return {check["check"]: check["outcome"] for check in json.loads(ended.stdout)["checks"]}
