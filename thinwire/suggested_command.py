"""Commands in messages: complete, so that a person can paste them into a shell."""

import shlex
from pathlib import Path

DEFAULT_RESULTS = Path("results")
# The results that are committed.
REFERENCE = DEFAULT_RESULTS / "reference"


def suggested_command(*words: str, results: Path) -> str:
    """A `thinwire` command in backticks, quoted for a shell.

    Args:
        words: what follows `thinwire`.
        results: the folder of results; the command names it if it is not the default.
    """
    here, folder = Path.cwd(), results.absolute()
    if folder.is_relative_to(here):
        folder = folder.relative_to(here)
    if folder != DEFAULT_RESULTS:
        words = (*words, "--results", str(folder))
    return f"`{shlex.join(('thinwire', *words))}`"
