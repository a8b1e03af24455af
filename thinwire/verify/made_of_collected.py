"""Checks that claims, page and paper follow from the collected files: makes them again, and compares."""

from collections.abc import Callable, Iterator
from pathlib import Path

from thinwire.errors import UserError
from thinwire.page import page
from thinwire.paper import paper
from thinwire.report.claims import table
from thinwire.report.result_names import CLAIMS, CLAIMS_TEXT, PAPER
from thinwire.suggested_command import suggested_command

# The command that writes each file, and what it writes.
_MADE: dict[str, tuple[str, Callable[[Path], bytes]]] = {
    CLAIMS: ("claims", lambda results: table.csv(table.table(results)[0]).encode()),
    CLAIMS_TEXT: ("claims", lambda results: table.markdown(table.table(results)[0]).encode()),
    page.FILE: ("page", lambda results: page.html(results).encode()),
    PAPER: ("paper", paper.pdf),
}


def problems_of_conclusions(results: Path) -> Iterator[str]:
    """What is wrong with claims, page and paper, in a sentence each. The collected files must be sound."""
    for name, (command, make) in _MADE.items():
        path = results / name
        if not path.exists():
            continue
        again = f"make it again with {suggested_command(command, results=results)}"
        try:
            if path.read_bytes() != make(results):
                yield f"{path} is not what follows from the collected files: {again}"
        except UserError as error:
            yield f"{path} cannot be checked, because {error}: {again}"
