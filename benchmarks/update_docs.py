"""Put the newest records and the tables of reference results into the documentation.

    python -m benchmarks.update_docs

A block after one of these lines becomes what stands in the newest record of `benchmarks/NAME.py`:

    <!-- targets: NAME --> date, machine, commands, and the figures with a target
    <!-- heading: NAME --> the lines that say where and of what it is
    <!-- printed: NAME --> what follows the commands in the block above this line

Between `<!-- summary of the committed SUITE -->` and `<!-- end -->` is the last table of a suite in
`results/reference/`, as `thinwire report` writes them. The README's table, after
`<!-- table of the study -->`, and its figures are made by `study_results.py`, numbers in the text by
`prose_numbers.py`. Tests check that all of this is up to date.
"""

import re
import sys
from pathlib import Path

from benchmarks import committed_tables, prose_numbers, study_results
from thinwire.base.errors import UserError
from thinwire.config.suite import load
from thinwire.report.tables.about import About
from thinwire.report.tables.summary import blocks, of_block

ROOT = Path(__file__).parent.parent
# Of the machines of most records; docs/performance.md says so once.
_USUAL = ", 2 cores, 24 GiB of memory, GPU: none"
_TABLES = re.compile(
    r"(<!-- summary of the committed (?P<suite>\S+) -->\n).*?(?=<!-- end -->)",
    re.DOTALL,
)
_STUDY = re.compile(r"(<!-- table of the study -->\n).*?(?=<!-- end -->)", re.DOTALL)
_BLOCK = re.compile(
    r"(?:```sh\n(?P<commands>[^`]*)```\n+)?"
    r"<!-- (?P<part>targets|heading|printed): (?P<name>\w+) -->\n+"
    r"```\n(?P<content>.*?)```\n",
    re.DOTALL,
)


def newest(name: str) -> str:
    """The content of the newest record of a benchmark; the folders of records are named by date."""
    return max((ROOT / "benchmarks" / "records").glob(f"*/{name}.txt")).read_text()


def quoted(text: str) -> str:
    """The text with its blocks and tables as the newest records and the reference have them."""
    text = _BLOCK.sub(_again, text)
    text = _STUDY.sub(lambda match: f"{match[1]}\n{study_results.table()}\n\n", text)
    return _TABLES.sub(lambda match: f"{match[1]}\n{table(match['suite'])}\n\n", text)


def _again(match: re.Match[str]) -> str:
    content, whole = newest(match["name"]), match[0]
    if match["part"] == "heading":
        content = _made(content)
    elif match["part"] == "targets":
        content = targets(content)
    else:
        content = printed(content, match["commands"] or "")
    return f"{whole[: match.start('content') - match.start()]}{content}```\n"


def targets(record: str) -> str:
    """A line with the day and the machine of a record, then its commands, and its figures with targets."""
    shown = re.findall(r"^(?:\$ |.*\(target |\d+ of \d+ parts ).*\n", record, re.MULTILINE)
    return _made(record).replace(_USUAL, "") + "".join(shown)


def _made(record: str) -> str:
    """A line with the day and the machine of a record."""
    made = re.match(r"# date: (\S+).*\n# machine: (.*\n)", record)
    assert made is not None, f"a record begins with its date and machine, not with {record[:80]!r}"
    return f"# {made[1]}, {made[2]}"


def printed(record: str, commands: str) -> str:
    """What a record has below these commands.

    Args:
        record: each command in it follows `$ `.
        commands: a command a line.
    """
    asked = "".join(f"$ {line}\n" for line in commands.splitlines())
    _, _, after = record.partition(asked)
    return re.split(r"^(?:\$ |exit code )", after, maxsplit=1, flags=re.MULTILINE)[0]


def table(suite: str) -> str:
    """The table of a committed suite in Markdown: the summary of its last block, with the most workers."""
    about, results = About.of(load(suite)), committed_tables.summary(suite)
    block = list(blocks(results, about))[-1]
    return f"**{block.heading}.** {of_block(block)}"


def names(text: str) -> list[str]:
    """Of which benchmarks a text quotes the records."""
    return [match["name"] for match in _BLOCK.finditer(text)]


def main() -> None:
    """Write each page again that would be another one now, and the figures of the README."""
    paths = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
    pages = {
        path: prose_numbers.filled(path.relative_to(ROOT).as_posix(), quoted(path.read_text()))
        for path in paths
    }
    for path, after in pages.items():
        if path.read_text() != after:
            path.write_text(after)
            print(f"changed: {path.relative_to(ROOT)}")
    study_results.draw(ROOT / "docs")


if __name__ == "__main__":
    try:
        main()
    except UserError as error:
        sys.exit(str(error))
