"""A part of something long that an environment variable asks for, such as `2 of 5`."""

import os
import re
from typing import NamedTuple

import pytest


class Part(NamedTuple):
    """The `number`-th of `of` parts, counted from 1."""

    number: int
    of: int


def asked_for(variable: str) -> Part | None:
    """The part that this variable asks for; None: it is not set.

    Raises:
        pytest.UsageError: its value is something else.
    """
    value = os.environ.get(variable)
    if not value:
        return None
    named = re.fullmatch(r"(\d+) of (\d+)", value)
    if named is None or not 1 <= int(named[1]) <= int(named[2]):
        raise pytest.UsageError(f"{variable} is {value!r}: write N of M, as '2 of 5'; '1 of 1' is the whole")
    return Part(int(named[1]), int(named[2]))
