"""`thinwire COMMAND ...`.

Exit codes:

- 0: success
- 1: a run failed and has its record, a method breaks the contract, or a record does not verify or repeat
- 2: bad input, or a problem outside a run that must be fixed; one sentence says what
- 3: a rank could not go on, and has said why
- 128 + N: interrupted by signal N
"""

import argparse
import os
import signal
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, Never

from thinwire import __version__
from thinwire.base import folders
from thinwire.base.errors import UserError, shortage
from thinwire.base.names import DEFAULT_RESULTS, REFERENCE
from thinwire.base.signals import interrupts_ending_at_once
from thinwire.cli.output import ignore_lost_output
from thinwire.cli.plan_options import add_questions
from thinwire.cli.plugins_options import add_plugins, add_submissions

# The commands of each module in this folder: COMMAND is its function `COMMAND_main`.
_COMMANDS = {
    "inspect": "list show cells schema",
    "check": "check",
    "new": "new",
    "run": "run emulate train",
    "prepare": "data prepare",
    "slurm_task": "slurm_task",
    "simulate": "simulate times hsgd_ratio tuned",
    "plan": "plan",
    "results": "collect report paper claims cite page verify archive rebuild compare track wandb-report",
    "trace": "schedule trace",
    "submissions": "reproduce submit score",
}
_MODULE = {command: module for module, commands in _COMMANDS.items() for command in commands.split()}


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Never:
        """Print one sentence, as for all bad input."""
        print(f"{self.prog}: {message}; see {self.prog} --help", file=sys.stderr)
        sys.exit(2)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="thinwire", description="Train on many workers while sending little between them.")
    parser.add_argument("--version", action="version", version=f"thinwire {__version__}")
    parser.add_argument(
        "--plugins",
        metavar="DIR",
        help="the folder with your own methods/, models/, datasets/ and config/; default: "
        f"{folders.VARIABLE}, or the working folder if it has one of them",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    # What several commands take.
    folder = "the folder of results; default: results"
    results = _parent("--results", type=Path, default=DEFAULT_RESULTS, metavar="DIR", help=folder)
    suite = _parent("suite", metavar="SUITE", help="a file in config/, without .yaml")
    suites = _parent("suites", nargs="+", metavar="SUITE")
    cell = _parent("cell", metavar="CELL", help="as `thinwire cells SUITE` lists it")
    again = _parent("--again", action="store_true", help="train the cell again even if it has its record")
    fingerprint = _parent(
        "--fingerprint", metavar="DIGEST", help="refuse to start if the suite has changed since planning"
    )
    only = _parent(
        "--only",
        nargs="+",
        default=[],
        metavar="KEY=NAMES",
        help="a subset of the cells: datasets=, models=, methods= or workers= with names and commas between "
        "them, or repetitions=NUMBER",
    )

    def add(name: str, *parents: _Parser, **options: Any) -> _Parser:
        return commands.add_parser(name, parents=[results, *parents], **options)

    add_plugins(commands)
    add_submissions(commands, results)

    cells = add("cells", suite, only, help="list the cells of a suite, with the state of their records")
    cells.add_argument(
        "--cost",
        metavar="GPU",
        help="print instead what they cost on GPUs: a file in config/accelerators/ without .yaml, or a100 "
        "for those of an A100, of which each cell takes the one of its precision",
    )

    schema = commands.add_parser("schema", help="print the JSON schema of files in config/, for editors")
    schema.add_argument("kind", nargs="?", default="suite", choices=("suite", "tuning", "config"))

    data = add("data", help="fetch, verify and store a data set as arrays")
    data.add_argument("dataset", metavar="DATASET")
    data.add_argument("--from", dest="place", type=Path, metavar="DIR", help="the folder with its files")
    data.add_argument("--options", default="{}", metavar="JSON", help="its options, as in a suite")
    data.add_argument("--label", help="its label in a suite; default: its name")

    prepare = add(
        "prepare",
        suite,
        fingerprint,
        help="make the preparation of a method, which its runs in a suite share",
    )
    prepare.add_argument("preparation", metavar="PREPARATION", help="DATASET/MODEL/METHOD/seedN")

    run = add("run", suite, cell, fingerprint, again, help="train one cell of a suite")
    run.add_argument(
        "--transport",
        choices=("inprocess", "processes"),
        help="all workers in one process, or a process for each; default: as the suite says. With another "
        "transport than the suite's the record is in by_hand/",
    )
    run.add_argument(
        "--workers", type=int, metavar="N", help="refuse to start if the cell has another number of workers"
    )
    run.set_defaults(cluster=None)

    emulate = add("emulate", suite, cell, again, help="train one cell of a suite on an emulated cluster")
    emulate.add_argument(
        "--cluster", required=True, metavar="NAME", help="a file in config/clusters/, without .yaml"
    )
    emulate.set_defaults(transport="emulated", workers=None, fingerprint=None)

    train = add("train", suite, only, fingerprint, help="train all methods of a block in one allocation")
    train.add_argument("block", metavar="BLOCK", help="DATASET/MODEL/SIZE/seedN")
    train.add_argument(
        "--jobs",
        type=int,
        default=1,
        metavar="N",
        help="runs at the same time, if they are not timed; default: 1",
    )
    train.add_argument("--again", action="store_true", help="train also what was made before")

    schedule = add("schedule", suite, cell, help="show what the workers of a cell compute, send and wait for")
    schedule.add_argument(
        "--workers", type=int, metavar="W", help="the number of workers; default: that of the cell"
    )
    schedule.add_argument("--nodes", type=int, metavar="N", help="the number of nodes; default: the cell's")
    schedule.add_argument(
        "--steps", type=int, default=16, metavar="K", help="the number of steps from the first; default: 16"
    )

    simulate = add("simulate", suite, only, help="simulate the time of a suite's cells on described clusters")
    simulate.add_argument(
        "--cluster",
        nargs="+",
        default=[],
        metavar="NAME",
        help="files in config/clusters/, without .yaml; default: those of the suite",
    )
    simulate.add_argument(
        "--workers", type=int, nargs="+", default=[], metavar="W", help="default: those of the suite"
    )
    simulate.add_argument(
        "--steps", type=int, metavar="K", help="of a run, the first K steps; default: as the suite says"
    )

    times = add(
        "times",
        suite,
        only,
        help="simulate the time of a suite's methods on clusters of GPUs, without its data",
    )
    times.add_argument(
        "--jobs", type=int, default=1, metavar="N", help="methods that are simulated at once; default: 1"
    )

    add(
        "hsgd_ratio",
        help="simulate how many times as long the naive strategy takes as HSGD, over computing and links",
    )

    plan = commands.add_parser(
        "plan", help="simulate which method is the fastest for your network over your link"
    )
    add_questions(plan)

    trace = add("trace", suite, cell, help="record what the workers of a cell do in its first steps")
    trace.add_argument("--steps", type=int, default=20, metavar="K", help="how many steps; default: 20")
    how = trace.add_mutually_exclusive_group()
    how.add_argument(
        "--transport",
        choices=("inprocess", "processes"),
        help="all workers in one process, or a process for each; default: as the suite says",
    )
    how.add_argument(
        "--cluster", metavar="NAME", help="on an emulated cluster: a file in config/clusters/, without .yaml"
    )

    # `thinwire train` starts it on a cluster; it is no command for people, so that --help does not list it.
    add("slurm_task", suite)

    add("collect", suites, only, help="collect records of runs in summary.csv and curves.parquet")
    add("report", suite, help="make the tables and figures of a suite from the collected files")
    add("paper", help="make the paper from the collected files, tables and figures")
    add("claims", help="write and print the verdicts on the claims of all publications")
    commands.add_parser("cite", parents=[suite], help="print BibTeX of what a suite is made of")
    add("page", help="make the page of all results from the records, tables and curves")

    verify = commands.add_parser(
        "verify", help="check all records again, and what was made of them: has a file been changed?"
    )
    verify.add_argument(
        "folder",
        nargs="?",
        type=Path,
        default=DEFAULT_RESULTS,
        metavar="FOLDER",
        help="the folder of results; default: results",
    )

    archive = add("archive", suites, help="add the records of suites to the results that are committed")
    archive.add_argument(
        "--into",
        type=Path,
        default=REFERENCE,
        metavar="DIR",
        help="the folder that is committed; default: results/reference",
    )

    rebuild = commands.add_parser(
        "rebuild", help="make tables, figures, page and paper of the committed results again"
    )
    compare = add("compare", help="put a rerun beside the committed results, cell by cell")
    for command in (rebuild, compare):
        command.add_argument(
            "folder",
            nargs="?",
            type=Path,
            default=REFERENCE,
            metavar="FOLDER",
            help="the folder that is committed; default: results/reference",
        )

    add("track", suites, only, help="make offline runs of W&B from the records of runs")
    commands.add_parser(
        "wandb-report", parents=[suite], help="create a report in W&B, of a suite whose runs were sent there"
    )

    tuned = add("tuned", help="choose from the trials of a tuning, which the pipeline has run")
    tuned.add_argument("suite", metavar="SUITE", help="a file in config/tuning/, without .yaml")
    return parser


def _parent(name: str, **options: Any) -> _Parser:
    """A parser with one argument, which other parsers inherit."""
    made = _Parser(add_help=False)
    made.add_argument(name, **options)
    return made


def main() -> Never:
    """Run the command that was given, and exit."""
    ignore_lost_output()
    # For an error of a socket torch prints a page with its stack. thinwire prints one sentence.
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")
    try:
        arguments = _parser().parse_args()
        if arguments.plugins is not None:
            os.environ[folders.VARIABLE] = str(Path(arguments.plugins).absolute())
        # Processes that are started, and methods that change the working folder, keep it.
        os.environ.update(folders.environment())
        # Imported only when it is needed, because importing torch takes seconds.
        with interrupts_ending_at_once():
            module = import_module(f"thinwire.cli.{_MODULE[arguments.command]}")
        sys.exit(getattr(module, f"{arguments.command.replace('-', '_')}_main")(arguments))
    except UserError as error:
        print(f"thinwire: {error}", file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("thinwire: interrupted", file=sys.stderr)
        sys.exit(128 + signal.SIGINT)
    except Exception as error:
        if (short := shortage(error)) is None:
            raise
        print(f"thinwire: {short}", file=sys.stderr)
        sys.exit(2)
