"""The regular expressions of the rules' wildcards."""

import re
from collections.abc import Iterable

SIZE = r"w\d+(n\d+)?"
SEED = r"seed\d+"
ANY = r"[^/]+"
PREPARATION = f"{ANY}/{ANY}/{ANY}/{SEED}"


def one_of(names: Iterable[str]) -> str:
    """As a regular expression: one of these names, whatever characters they have; of none, nothing."""
    return "|".join(map(re.escape, names)) or "(?!)"
