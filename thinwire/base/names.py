"""How cells, files and commands are named in what users read and type."""

import hashlib
import re
import shlex
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

from thinwire.base.errors import UserError, quoted

# File systems allow names of 255 bytes, and the engine adds prefixes and suffixes to a label.
LONGEST_LABEL = 100
_LABEL = rf"[A-Za-z0-9][A-Za-z0-9_.+-]{{0,{LONGEST_LABEL - 1}}}"
_RULE = f"at most {LONGEST_LABEL} letters, digits and . _ + -, beginning with a letter or a digit"


def require_label(label: str) -> str:
    """Check and return a label, the name of a folder; a `UserError` says why it is none."""
    if not re.fullmatch(_LABEL, label):
        raise UserError(f"{quoted(label)} cannot be a label: take {_RULE}")
    return label


def require_suite_name(name: str) -> str:
    """Return the name of a suite, the path of its file under `config/`; a `UserError` says why it is none."""
    if not all(re.fullmatch(_LABEL, part) for part in name.split("/")):
        raise UserError(
            f"{quoted(name)} cannot be the name of a suite: for each part between slashes take {_RULE}"
        )
    return name


def clash(names: Iterable[str]) -> str | None:
    """Say which two names differ only in upper and lower case, and what to do; None if no two do."""
    seen: dict[str, str] = {}
    for name in names:
        first = seen.setdefault(name.casefold(), name)
        if first != name:
            return (
                f"{first} and {name} differ in upper and lower case only, which some file systems do not "
                "tell apart: give one another label"
            )
    return None


def nearest(name: str, known: Iterable[str]) -> str:
    """The name that a person may have meant; there must be one."""
    return get_close_matches(name, known, n=1, cutoff=0.0)[0]


def flat(suite: str) -> str:
    """Replace slashes and plus signs in a suite's name: `claims/mp2` becomes `claims-mp2`.

    The result is unique: a name that contains plus signs or hyphens itself gets a digest as a suffix.
    """
    readable = re.sub("[/+]", "-", suite)
    if re.search("[+-]", suite):
        readable += f"-{hashlib.sha256(suite.encode()).hexdigest()[:8]}"
    return readable


DEFAULT_RESULTS = Path("results")
# The results that are committed.
REFERENCE = DEFAULT_RESULTS / "reference"


def suggested_command(*words: str, results: Path) -> str:
    """A `thinwire` command in backticks, quoted for a shell, with the folder of results if need be."""
    here, folder = Path.cwd(), results.absolute()
    if folder.is_relative_to(here):
        folder = folder.relative_to(here)
    if folder != DEFAULT_RESULTS:
        words = (*words, "--results", str(folder))
    return f"`{shlex.join(('thinwire', *words))}`"
