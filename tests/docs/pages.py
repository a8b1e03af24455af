"""The tracked Markdown files, and what is in them."""

import re
import subprocess
from pathlib import Path
from typing import NamedTuple

from thinwire.plugins import ROOT

_FENCE = re.compile(r"^```(?P<language>\w*)\n(?P<content>.*?)^```$", re.DOTALL | re.MULTILINE)
_CELL = re.compile(r"(?<!\\)\|")


class Block(NamedTuple):
    """A fenced block."""

    language: str
    content: str


def tracked(*patterns: str) -> list[str]:
    """The files of the project by their path in it, new ones included, without those that git ignores."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


def pages() -> list[Path]:
    """All Markdown files of the project, without those that others have submitted."""
    return [ROOT / name for name in tracked("*.md") if not re.match("submissions/.*/", name)]


def name(path: Path) -> str:
    """The path as a test names it."""
    return path.relative_to(ROOT).as_posix()


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a page."""
    return [Block(match["language"], match["content"]) for match in _FENCE.finditer(text)]


def prose(text: str) -> str:
    """A page without its fenced blocks."""
    return _FENCE.sub("", text)


def tables(text: str) -> list[list[list[str]]]:
    """The tables of a page: rows of cells, the heading first, without the line below it."""
    found = re.findall(r"(?:^\|.*\|\n)+", prose(text) + "\n", re.MULTILINE)
    return [
        [
            [cell.strip() for cell in _CELL.split(line.strip()[1:-1])]
            for number, line in enumerate(table.splitlines())
            if number != 1
        ]
        for table in found
    ]
