"""Put the newest records into the documentation.

    python benchmarks/update_docs.py

A block after one of these lines becomes what stands in the newest record of `benchmarks/NAME.py`:

    <!-- newest record of NAME -->                all of it
    <!-- heading of the newest record of NAME --> the lines that say where and of what it is
    <!-- printed, in the newest record of NAME --> what follows the commands in the block above this line

`docs/artifact.md` is made from the suites. Tests check that every block equals its record, and that this page
is up to date.
"""

import re
from pathlib import Path

from thinwire.report.claims import artifact

ROOT = Path(__file__).parent.parent
ARTIFACT = ROOT / "docs" / "artifact.md"
_BLOCK = re.compile(
    r"(?:```sh\n(?P<commands>[^`]*)```\n+)?"
    r"<!-- (?P<part>|heading of the |printed, in the )newest record of (?P<name>\w+) -->\n+"
    r"```\n(?P<content>.*?)```\n",
    re.DOTALL,
)


def newest(name: str) -> str:
    """The content of the newest record of a benchmark; the folders of records are named by date."""
    return max((ROOT / "benchmarks" / "records").glob(f"*/{name}.txt")).read_text()


def quoted(text: str) -> str:
    """The text with its blocks as the newest records have them."""
    return _BLOCK.sub(_again, text)


def _again(match: re.Match[str]) -> str:
    content, whole = newest(match["name"]), match[0]
    if match["part"].startswith("heading"):
        content = "".join(line for line in content.splitlines(keepends=True) if line.startswith("# "))
    elif match["part"]:
        content = printed(content, match["commands"] or "")
    return f"{whole[: match.start('content') - match.start()]}{content}```\n"


def printed(record: str, commands: str) -> str:
    """What a record has below these commands.

    Args:
        record: each command in it follows `$ `.
        commands: a command a line.
    """
    asked = "".join(f"$ {line}\n" for line in commands.splitlines())
    _, _, after = record.partition(asked)
    return re.split(r"^(?:\$ |exit code )", after, maxsplit=1, flags=re.MULTILINE)[0]


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
