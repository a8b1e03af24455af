"""What can be written after `thinwire`: the commands, and the arguments of each."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Never

from thinwire import __version__
from thinwire.base import folders
from thinwire.base.folders import DEFAULT_RESULTS, REFERENCE


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> Never:
        """Print one sentence, as for all bad input."""
        print(f"{self.prog}: {message}; see {self.prog} --help", file=sys.stderr)
        sys.exit(2)

    def add_number(self, name: str, metavar: str, about: str, **options: Any) -> None:
        """Add an option that takes a whole number."""
        self.add_argument(name, type=int, metavar=metavar, help=about, **options)


# Adds a command: its name, the parsers whose arguments it has too, and a line for --help.
Add = Callable[..., _Parser]


def _argument(name: str, **options: Any) -> _Parser:
    """A parser with one argument, which several commands take."""
    made = _Parser(add_help=False)
    made.add_argument(name, **options)
    return made


def _folder(name: str, default: Path, what: str, metavar: str) -> _Parser:
    about = f"{what}; default: {default}"
    optional = {} if name.startswith("-") else {"nargs": "?"}
    return _argument(name, type=Path, default=default, metavar=metavar, help=about, **optional)


_RESULTS = _folder("--results", DEFAULT_RESULTS, "the folder of results", "DIR")
_SUITE = _argument("suite", metavar="SUITE", help="a file in config/, without .yaml")
_SUITES = _argument("suites", nargs="+", metavar="SUITE")
_CELL = _argument("cell", metavar="CELL", help="as `thinwire cells SUITE` lists it")
_AGAIN = _argument("--again", action="store_true", help="train the cell again even if it has its record")
_FINGERPRINT = _argument(
    "--fingerprint", metavar="DIGEST", help="refuse to start if the suite has changed since planning"
)


def _only(cells: str) -> _Parser:
    keys = "datasets=, models=, methods= or workers= with names and commas between them"
    about = f"{cells}: {keys}, or repetitions=NUMBER"
    return _argument("--only", nargs="+", default=[], metavar="KEY=NAMES", help=about)


_ONLY = _only("a subset of the cells")
_TRANSPORTS = ("inprocess", "processes")


def parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    made = _Parser(prog="thinwire", description="Train on many workers while sending little between them.")
    made.add_argument("--version", action="version", version=f"thinwire {__version__}")
    made.add_argument(
        "--plugins",
        metavar="DIR",
        help="the folder with your own methods/, models/, datasets/ and config/; default: "
        f"{folders.VARIABLE}, or the working folder if it has one of them",
    )
    commands = made.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, *parents: _Parser, **options: Any) -> _Parser:
        return commands.add_parser(name, parents=parents, **options)

    _add_plug_ins(add)
    _add_submissions(add)
    _add_runs(add)
    _add_simulations(add)
    _add_results(add)
    return made


def _add_plug_ins(add: Add) -> None:
    add("list", help="list methods, models and data sets")

    show = add("show", help="show a method's paper, update rule, options and defaults")
    show.add_argument("method", metavar="METHOD")

    new = add("new", help="write a small plug-in or suite that works, to begin with")
    new.add_argument("kind", choices=("method", "model", "dataset", "suite"))
    new.add_argument("name", metavar="NAME")

    check = add("check", help="check methods against the contract")
    file = "the file of a method; default: all in methods/"
    check.add_argument("file", nargs="?", type=Path, metavar="FILE", help=file)
    check.add_argument(
        "--processes", action="store_true", help="check on processes, too, one for each worker"
    )
    check.add_argument("--json", action="store_true", help="print the outcomes as JSON")
    check.add_argument("-k", dest="only", metavar="NAME", help="only the checks whose name contains NAME")


def _add_submissions(add: Add) -> None:
    reproduce = add("reproduce", _RESULTS, help="train the cell of a record again: is the result the same?")
    reproduce.add_argument("record", type=Path, metavar="RECORD", help="its folder, or its run.json")
    reproduce.add_argument("--json", action="store_true", help="print the outcome as JSON")

    submit = add("submit", _RESULTS, help="pack a method of your own and its records in a track")
    submit.add_argument("method", metavar="NAME")
    submit.add_argument("--track", required=True, metavar="TRACK", help="a suite in config/tracks/")
    about = "pack them as a sceptical result about this row of the track"
    submit.add_argument("--contradicts", metavar="METHOD", help=about)

    score = add("score", _RESULTS, help="repeat cells of a submission, and perform the contract")
    score.add_argument("submission", type=Path, metavar="FOLDER", help="submissions/NAME")
    score.add_number("--cells", "K", "how many are drawn; default: 2", default=2)
    score.add_number("--seed", "N", "of the draw; default: another one each time")


def _add_runs(add: Add) -> None:
    cells = add(
        "cells", _RESULTS, _SUITE, _ONLY, help="list the cells of a suite, with the state of their records"
    )
    cells.add_argument(
        "--cost",
        metavar="GPU",
        help="print instead what they cost on GPUs: a file in config/accelerators/ without .yaml, or a100 "
        "for those of an A100, of which each cell takes the one of its precision",
    )

    schema = add("schema", help="print the JSON schema of files in config/, for editors")
    schema.add_argument("kind", nargs="?", default="suite", choices=("suite", "tuning", "config"))

    data = add("data", _RESULTS, help="fetch, verify and store a data set as arrays")
    data.add_argument("dataset", metavar="DATASET")
    data.add_argument("--from", dest="place", type=Path, metavar="DIR", help="the folder with its files")
    data.add_argument("--options", default="{}", metavar="JSON", help="its options, as in a suite")
    data.add_argument("--label", help="its label in a suite; default: its name")

    about = "make the preparation of a method, which its runs in a suite share"
    prepare = add("prepare", _RESULTS, _SUITE, _FINGERPRINT, help=about)
    prepare.add_argument("preparation", metavar="PREPARATION", help="DATASET/MODEL/METHOD/seedN")

    run = add("run", _RESULTS, _SUITE, _CELL, _FINGERPRINT, _AGAIN, help="train one cell of a suite")
    run.add_argument(
        "--transport",
        choices=_TRANSPORTS,
        help="all workers in one process, or a process for each; default: as the suite says. With another "
        "transport than the suite's the record is in by_hand/",
    )
    run.add_number("--workers", "N", "refuse to start if the cell has another number of workers")
    run.set_defaults(cluster=None)

    about = "train one cell of a suite on an emulated cluster"
    emulate = add("emulate", _RESULTS, _SUITE, _CELL, _AGAIN, help=about)
    cluster = "a file in config/clusters/, without .yaml"
    emulate.add_argument("--cluster", required=True, metavar="NAME", help=cluster)
    emulate.set_defaults(transport="emulated", workers=None, fingerprint=None)

    about = "train all methods of a block in one allocation"
    train = add("train", _RESULTS, _SUITE, _ONLY, _FINGERPRINT, help=about)
    train.add_argument("block", metavar="BLOCK", help="DATASET/MODEL/SIZE/seedN")
    train.add_number("--jobs", "N", "runs at the same time, if they are not timed; default: 1", default=1)
    train.add_argument("--again", action="store_true", help="train also what was made before")


def _add_simulations(add: Add) -> None:
    about = "show what the workers of a cell compute, send and wait for"
    schedule = add("schedule", _RESULTS, _SUITE, _CELL, help=about)
    schedule.add_number("--workers", "W", "the number of workers; default: that of the cell")
    schedule.add_number("--nodes", "N", "the number of nodes; default: the cell's")
    schedule.add_number("--steps", "K", "the number of steps from the first; default: 16", default=16)

    about = "simulate the time of a suite's cells on described clusters"
    simulate = add("simulate", _RESULTS, _SUITE, _ONLY, help=about)
    simulate.add_argument(
        "--cluster",
        nargs="+",
        default=[],
        metavar="NAME",
        help="files in config/clusters/, without .yaml; default: those of the suite",
    )
    simulate.add_number("--workers", "W", "default: those of the suite", nargs="+", default=[])
    simulate.add_number("--steps", "K", "of a run, the first K steps; default: as the suite says")

    about = "simulate the time of a suite's methods on clusters of GPUs, without its data"
    times = add("times", _RESULTS, _SUITE, _ONLY, help=about)
    times.add_number("--jobs", "N", "methods that are simulated at once; default: 1", default=1)

    about = "simulate how many times as long the naive strategy takes as HSGD, over computing and links"
    add("hsgd_ratio", _RESULTS, help=about)

    plan = add("plan", help="simulate which method is the fastest for your network over your link")
    network = plan.add_mutually_exclusive_group(required=True)
    network.add_argument("--model", metavar="NAME", help="resnet18 or gpt_124m, for instance")
    about = "a GPT with about N weights stands for your network"
    network.add_argument("--parameters", type=int, metavar="N", help=about)
    plan.add_number("--workers", "W", "all together", required=True)
    plan.add_number("--per-node", "N", "workers of a node; default: 1", default=1)
    link = plan.add_mutually_exclusive_group(required=True)
    link.add_argument("--rate", type=float, metavar="GBIT", help="Gbit/s of a node's link")
    about = "measure rate and latency to where `python -m thinwire.simulation.probe` has printed this"
    link.add_argument("--probe", metavar="TOKEN@HOST", help=about)
    about = "milliseconds, one way; default: what --probe finds, or 0.005"
    plan.add_argument("--latency", type=float, metavar="MS", help=about)
    about = "a file in config/accelerators/, without .yaml; default: a100_bf16"
    plan.add_argument("--accelerator", default="a100_bf16", metavar="NAME", help=about)
    about = "that both passes of a step take; --parameters needs it; default with --model: the accelerator's"
    plan.add_argument("--step-seconds", type=float, metavar="S", help=about)
    plan.add_argument("--json", action="store_true", help="print the numbers as JSON")

    about = "record what the workers of a cell do in its first steps"
    trace = add("trace", _RESULTS, _SUITE, _CELL, help=about)
    trace.add_number("--steps", "K", "how many steps; default: 20", default=20)
    how = trace.add_mutually_exclusive_group()
    about = "all workers in one process, or a process for each; default: as the suite says"
    how.add_argument("--transport", choices=_TRANSPORTS, help=about)
    about = "on an emulated cluster: a file in config/clusters/, without .yaml"
    how.add_argument("--cluster", metavar="NAME", help=about)

    # `thinwire train` starts it on a cluster; it is no command for people, so that --help does not list it.
    add("slurm_task", _RESULTS, _SUITE)


def _add_results(add: Add) -> None:
    committed = "the folder that is committed"
    reference = _folder("folder", REFERENCE, committed, "FOLDER")
    results = _folder("folder", DEFAULT_RESULTS, "the folder of results", "FOLDER")

    about = "collect records of runs in summary.csv and curves.parquet"
    needed = _only("the cells that must have a record, while those of others are collected, too")
    add("collect", _RESULTS, _SUITES, needed, help=about)
    about = "make the tables and figures of a suite from the collected files"
    add("report", _RESULTS, _SUITE, help=about)
    add("paper", _RESULTS, help="make the paper from the collected files, tables and figures")
    add("claims", _RESULTS, help="write and print the verdicts on the claims of all publications")
    add("cite", _SUITE, help="print BibTeX of what a suite is made of")
    add("page", _RESULTS, help="make the page of all results from the records, tables and curves")
    about = "check all records again, and what was made of them: has a file been changed?"
    add("verify", results, help=about)
    about = "add the records of suites to the results that are committed"
    add("archive", _RESULTS, _SUITES, _folder("--into", REFERENCE, committed, "DIR"), help=about)
    about = "make tables, figures, page and paper of the committed results again"
    add("rebuild", reference, help=about)
    about = "put a rerun beside the committed results, cell by cell"
    add("compare", _RESULTS, reference, help=about)
    add("track", _RESULTS, _SUITES, _ONLY, help="make offline runs of W&B from the records of runs")
    about = "create a report in W&B, of a suite whose runs were sent there"
    add("wandb-report", _SUITE, help=about)
    tuned = add("tuned", _RESULTS, help="choose from the trials of a tuning, which the pipeline has run")
    tuned.add_argument("suite", metavar="SUITE", help="a file in config/tuning/, without .yaml")
