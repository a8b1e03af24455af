"""`thinwire reproduce`, `submit` and `score`: results of others."""

import json
import secrets
import sys
from argparse import Namespace
from contextlib import ExitStack, redirect_stdout
from pathlib import Path
from subprocess import PIPE

from thinwire.base import folders
from thinwire.base.errors import UserError
from thinwire.cli.run import in_a_process
from thinwire.records.record import RUN
from thinwire.submissions import score, submission
from thinwire.submissions.reproduction import Reproduction, Verdict, reproduce


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
    folder = submission.submit(
        arguments.method, arguments.track, arguments.results, arguments.contradicts, _contract
    )
    print(f"wrote {folder}; next:")
    print(f"  fill in {folder / submission.README}")
    print(f"  thinwire score {folder}")
    return 0


def score_main(arguments: Namespace) -> int:
    """Repeat cells of a submission, perform the contract, and say how far the submission is proved."""
    packed = submission.read(arguments.submission)
    made = submission.verified_submission(packed)
    seed = secrets.randbelow(2**32) if arguments.seed is None else arguments.seed
    cells = score.drawn(made, arguments.cells, seed)
    print(f"{len(made)} records verify; {len(cells)} drawn with --seed {seed}", flush=True)
    repeats = {}
    for cell in cells:
        found = score.repeat(packed, cell, arguments.results)
        repeats[cell.path] = found.facts
        print(f"{cell.path}: {_said(found)}", flush=True)
    written = score.write(packed, seed, repeats, _contract)
    failed = [check for check, outcome in written.contract.items() if outcome == "failed"]
    print(f"the contract: {len(written.contract)} checks, {', '.join(failed) or 'none'} failed")
    tier = score.tier(packed, made)
    print(f"{packed.name} is {tier}; {packed.folder / score.SCORE} has what was done")
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
