"""A summary in Markdown."""

import re
from collections.abc import Sequence

import pandas as pd

from thinwire.report.tables.blocks import Block, Value
from thinwire.report.tables.marks import Mark

_MARKED = {Mark.NONE: "{}", Mark.BEST: "**{}**", Mark.SECOND: "<u>{}</u>"}


def markdown(title: str, subset: str | None, shown: Sequence[Block], notes: Sequence[str]) -> str:
    """The blocks as tables under headings, and the notes as a list."""
    parts = [f"# {escaped(title)}", *([escaped(subset)] if subset else [])]
    for block in shown:
        parts += [f"## {escaped(block.heading)}", of_block(block)]
    parts += ["## Notes", "\n".join(f"- {escaped(note)}" for note in notes)]
    return "\n\n".join(parts) + "\n"


def of_block(block: Block) -> str:
    """A block without its heading."""
    remarks = "\n".join(f"- {escaped(remark)}" for remark in block.remarks)
    return "\n\n".join([escaped(block.origin), _table(block), *([remarks] if remarks else [])])


def escaped(text: str) -> str:
    """Plain text, in which nothing separates cells, is a tag, a link or emphasis.

    An underscore stays as it is: inside a word, as in labels, it has no meaning.
    """
    return re.sub(r"([\\`*<\[|])", r"\\\1", text)


def _table(block: Block) -> str:
    columns = [escaped(column) for column in block.columns]
    rows = pd.DataFrame([[_cell(value) for value in row] for row in block.rows], columns=columns)
    return str(rows.to_markdown(index=False, disable_numparse=True))


def _cell(value: Value) -> str:
    return _MARKED[value.mark].format(escaped(value.text))
