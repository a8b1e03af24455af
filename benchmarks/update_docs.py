"""Put the newest records into the documentation.

    python benchmarks/update_docs.py

A block after the line `<!-- newest record of NAME -->` becomes the newest record of `benchmarks/NAME.py`. A
test checks that every block equals its record.
"""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
_BLOCK = re.compile(r"(<!-- newest record of (?P<name>\w+) -->\n+```\n)(?P<content>.*?)(```\n)", re.DOTALL)


def newest(name: str) -> str:
    """The content of the newest record of a benchmark; the folders of records are named by date."""
    return max((ROOT / "benchmarks" / "records").glob(f"*/{name}.txt")).read_text()


def quoted(text: str) -> str:
    """The text with its blocks as the newest records have them."""
    return _BLOCK.sub(lambda match: match[1] + newest(match["name"]) + match[4], text)


def names(text: str) -> list[str]:
    """Of which benchmarks a text quotes the records."""
    return [match["name"] for match in _BLOCK.finditer(text)]


def main() -> None:
    """Write each page again that quotes something else."""
    for path in sorted(ROOT.glob("docs/**/*.md")):
        before = path.read_text()
        if (after := quoted(before)) != before:
            path.write_text(after)
            print(f"changed: {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
