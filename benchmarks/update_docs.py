"""Put the newest records into the documentation.

    python benchmarks/update_docs.py

A block after the line `<!-- newest record of NAME -->` becomes the newest record of `benchmarks/NAME.py`.
`docs/artifact.md` is made from the suites. Tests check that every block equals its record, and that this page
is up to date.
"""

import re
from pathlib import Path

from thinwire.report.claims import artifact

ROOT = Path(__file__).parent.parent
ARTIFACT = ROOT / "docs" / "artifact.md"
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
    """Write each page again that would be another one now."""
    pages = {path: quoted(path.read_text()) for path in sorted(ROOT.glob("docs/**/*.md"))}
    for path, after in (pages | {ARTIFACT: artifact.page()}).items():
        if not path.exists() or path.read_text() != after:
            path.write_text(after)
            print(f"changed: {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
