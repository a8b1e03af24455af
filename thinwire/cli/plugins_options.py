"""What the commands about plug-ins take: `list`, `show`, `new`, `check`; `reproduce`, `submit`, `score`."""

from pathlib import Path
from typing import Any


def add_plugins(commands: Any) -> None:
    """Add the commands about plug-ins.

    Args:
        commands: what `argparse.ArgumentParser.add_subparsers` returns.
    """
    commands.add_parser("list", help="list methods, models and data sets")

    show = commands.add_parser("show", help="show a method's paper, update rule, options and defaults")
    show.add_argument("method", metavar="METHOD")

    new = commands.add_parser("new", help="write a small plug-in or suite that works, to begin with")
    new.add_argument("kind", choices=("method", "model", "dataset", "suite"))
    new.add_argument("name", metavar="NAME")

    check = commands.add_parser("check", help="check methods against the contract")
    check.add_argument(
        "file",
        nargs="?",
        type=Path,
        metavar="FILE",
        help="the file of a method; default: all in methods/",
    )
    check.add_argument(
        "--processes", action="store_true", help="check on processes, too, one for each worker"
    )
    check.add_argument("--json", action="store_true", help="print the outcomes as JSON")
    check.add_argument("-k", dest="only", metavar="NAME", help="only the checks whose name contains NAME")


def add_submissions(commands: Any, results: Any) -> None:
    """Add the commands about results of others.

    Args:
        commands: as `add_plugins` takes them.
        results: the parser of `--results`.
    """
    reproduce = commands.add_parser(
        "reproduce", parents=[results], help="train the cell of a record again: is the result the same?"
    )
    reproduce.add_argument("record", type=Path, metavar="RECORD", help="its folder, or its run.json")
    reproduce.add_argument("--json", action="store_true", help="print the outcome as JSON")

    submit = commands.add_parser(
        "submit", parents=[results], help="pack a method of your own and its records in a track"
    )
    submit.add_argument("method", metavar="NAME")
    submit.add_argument("--track", required=True, metavar="TRACK", help="a suite in config/tracks/")
    submit.add_argument(
        "--contradicts", metavar="METHOD", help="pack them as a sceptical result about this row of the track"
    )

    score = commands.add_parser(
        "score", parents=[results], help="repeat cells of a submission, and perform the contract"
    )
    score.add_argument("submission", type=Path, metavar="FOLDER", help="submissions/NAME")
    score.add_argument("--cells", type=int, default=2, metavar="K", help="how many are drawn; default: 2")
    score.add_argument("--seed", type=int, metavar="N", help="of the draw; default: another one each time")
