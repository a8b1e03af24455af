"""A plug-in as a cell uses it."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Module:
    """A plug-in with its options, and the label that it has in paths and tables."""

    label: str
    use: str
    options: dict[str, Any]
