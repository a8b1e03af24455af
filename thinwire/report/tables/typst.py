"""A summary in Typst: a figure with a table for each block. Another document may include it."""

from collections.abc import Sequence

from thinwire.report.tables.blocks import Block, Value, is_text
from thinwire.report.tables.marks import Mark

_MARKED = {Mark.NONE: "{}", Mark.BEST: "strong({})", Mark.SECOND: "underline({})"}


def typst(title: str, subset: str | None, shown: Sequence[Block], notes: Sequence[str]) -> str:
    """The blocks as figures, and the notes as a paragraph."""
    below = quoted(" ".join([*([subset] if subset else []), *notes]))
    return "\n".join([*(_figure(title, block) for block in shown), f"#text(size: 0.8em, {below})", ""])


def quoted(text: str) -> str:
    """Plain text as a string, in which no character but these two has a meaning."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _figure(title: str, block: Block) -> str:
    alignment = ", ".join("left" if is_text(column) else "right" for column in block.columns)
    remarks = f"\n    #{quoted(' '.join(block.remarks))}" if block.remarks else ""
    rows = "\n".join("      " + " ".join(f"{_cell(value)}," for value in row) for row in block.rows)
    return f"""\
#figure(
  kind: table,
  caption: {quoted(f"{title}: {block.heading}. {block.origin}")},
  [
    #set text(size: 0.8em)
    #table(
      columns: {len(block.columns)},
      align: ({alignment}),
      stroke: none,
      table.hline(),
      table.header({", ".join(quoted(column) for column in block.columns)}),
      table.hline(stroke: 0.5pt),
{rows}
      table.hline(),
    ){remarks}
  ],
)
"""


def _cell(value: Value) -> str:
    # A hyphen at the beginning is that of a number, so it is a minus.
    text = "\N{MINUS SIGN}" + value.text[1:] if value.text.startswith("-") else value.text
    return _MARKED[value.mark].format(quoted(text))
