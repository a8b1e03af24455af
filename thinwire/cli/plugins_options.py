"""What the commands about plug-ins take: `thinwire list`, `show`, `new` and `check`."""

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
