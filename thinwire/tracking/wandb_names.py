"""The names of runs in W&B: readable, without unsafe characters, and no longer than W&B allows."""

import re

from thinwire import digests
from thinwire.config.cell import Cell
from thinwire.label import flat

# W&B takes ids, names, groups and projects up to 128 characters, and tags and job types up to 64.
LONGEST, LONGEST_TAG = 128, 64
_DIGEST = 8


def project(suite: str) -> str:
    """The project of a suite. Each suite has its own, because W&B is slow with thousands of runs in one."""
    return bounded("thinwire-" + flat(suite))


def run_name(cell: Cell) -> str:
    """The cell as people read it: data set, model, method, size, repetition."""
    return bounded(safe(cell.path))


def run_id(cell: Cell) -> str:
    """An id that depends on the cell and its options only, so that a run that is sent twice exists once."""
    readable = bounded(safe(f"{cell.suite}/{cell.path}"), LONGEST - _DIGEST - 1)
    return f"{readable}-{cell.fingerprint[:_DIGEST]}"


def group(cell: Cell) -> str:
    """The runs that belong in one picture: all methods and sizes on one model and data set."""
    return bounded(f"{cell.suite}/{cell.dataset}/{cell.model.label}")


def safe(text: str) -> str:
    """The text without characters that W&B refuses in an id, or that have a meaning in a URL or a path."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text)


def bounded(text: str, longest: int = LONGEST) -> str:
    """The text, cut to `longest` characters. A cut text ends in a digest of the whole, so it stays unique."""
    if len(text) <= longest:
        return text
    digest = digests.of_text(text)[:_DIGEST]
    return f"{text[: longest - _DIGEST - 1]}-{digest}"
