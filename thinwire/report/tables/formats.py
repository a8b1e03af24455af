"""Tables as Markdown, LaTeX and typst."""

import re
import unicodedata
from collections.abc import Iterable, Sequence

import pandas as pd

from thinwire.report.tables.blocks import Block, Value, is_text
from thinwire.report.tables.numbers import Mark

_MARKDOWN_MARKS = {Mark.NONE: "{}", Mark.BEST: "**{}**", Mark.SECOND: "<u>{}</u>"}


def markdown(title: str, subset: str | None, shown: Sequence[Block], notes: Sequence[str]) -> str:
    """The blocks as tables under headings, and the notes as a list."""
    parts = [f"# {escaped_markdown(title)}", *([escaped_markdown(subset)] if subset else [])]
    for block in shown:
        parts += [f"## {escaped_markdown(block.heading)}", of_block(block)]
    parts += ["## Notes", "\n".join(f"- {escaped_markdown(note)}" for note in notes)]
    return "\n\n".join(parts) + "\n"


def of_block(block: Block) -> str:
    """A block without its heading."""
    parts = [escaped_markdown(block.origin), _markdown_table(block)]
    if block.remarks:
        parts.append("\n".join(f"- {escaped_markdown(remark)}" for remark in block.remarks))
    return "\n\n".join(parts)


def escaped_markdown(text: str) -> str:
    """Plain text, in which nothing separates cells, is a tag, a link or emphasis.

    An underscore stays as it is: inside a word, as in labels, it has no meaning.
    """
    return re.sub(r"([\\`*<\[|])", r"\\\1", text)


def _markdown_table(block: Block) -> str:
    columns = [escaped_markdown(column) for column in block.columns]
    rows = pd.DataFrame([[_markdown_cell(value) for value in row] for row in block.rows], columns=columns)
    return str(rows.to_markdown(index=False, disable_numparse=True))


def _markdown_cell(value: Value) -> str:
    return _MARKDOWN_MARKS[value.mark].format(escaped_markdown(value.text))


_LATEX_MARKS = {Mark.NONE: "{}", Mark.BEST: r"\textbf{{{}}}", Mark.SECOND: r"\underline{{{}}}"}
_LATEX_ESCAPES = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    "±": r"$\pm$",
    **{character: f"\\{character}" for character in "_&%#${}"},
    # Quotes would join, and a bracket after the end of a row would be an option.
    **{character: f"{{{character}}}" for character in "`'[]"},
}


def latex(title: str, subset: str | None, shown: Sequence[Block], notes: Sequence[str]) -> str:
    """The blocks as tables with captions, and the notes as a paragraph."""
    parts = ["% Needs \\usepackage{booktabs}.", *(_latex_table(title, block) for block in shown)]
    return "\n\n".join([*parts, escaped_latex(" ".join([*([subset] if subset else []), *notes]))]) + "\n"


def escaped_latex(text: str) -> str:
    """Plain text for any font encoding: accents are dropped, and unknown characters become question marks."""
    apart = re.sub(r"-(?=-)", "-\0", text)  # two hyphens would become a dash
    return "".join(_LATEX_ESCAPES.get(character) or _ascii(character) for character in apart)


def _ascii(character: str) -> str:
    if character.isascii():
        return character if character.isprintable() else "{}"
    plain = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    return "".join(_LATEX_ESCAPES.get(part, part) for part in plain) or "?"


def _latex_table(title: str, block: Block) -> str:
    alignment = "".join("l" if is_text(column) else "r" for column in block.columns)
    lines = [
        r"\begin{table}",
        r"\centering\small",
        rf"\caption{{{escaped_latex(f'{title}: {block.heading}. {block.origin}')}}}",
        rf"\begin{{tabular}}{{{alignment}}}",
        r"\toprule",
        _latex_row(escaped_latex(column) for column in block.columns),
        r"\midrule",
        *(_latex_row(map(_latex_cell, row)) for row in block.rows),
        r"\bottomrule",
        r"\end{tabular}",
        *([r"\par\smallskip", escaped_latex(" ".join(block.remarks))] if block.remarks else []),
        r"\end{table}",
    ]
    return "\n".join(lines)


def _latex_row(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"


def _latex_cell(value: Value) -> str:
    text = escaped_latex(value.text)
    if value.text.startswith("-"):  # of a number, so it is a minus and no hyphen
        text = "$-$" + escaped_latex(value.text[1:])
    return _LATEX_MARKS[value.mark].format(text)


_TYPST_MARKS = {Mark.NONE: "{}", Mark.BEST: "strong({})", Mark.SECOND: "underline({})"}


def typst(title: str, subset: str | None, shown: Sequence[Block], notes: Sequence[str]) -> str:
    """The blocks as figures, and the notes as a paragraph."""
    below = quoted(" ".join([*([subset] if subset else []), *notes]))
    return "\n".join([*(_typst_figure(title, block) for block in shown), f"#text(size: 0.8em, {below})", ""])


def quoted(text: str) -> str:
    """Plain text as a string, in which no character but these two has a meaning."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _typst_figure(title: str, block: Block) -> str:
    alignment = ", ".join("left" if is_text(column) else "right" for column in block.columns)
    remarks = f"\n    #{quoted(' '.join(block.remarks))}" if block.remarks else ""
    rows = "\n".join("      " + " ".join(f"{_typst_cell(value)}," for value in row) for row in block.rows)
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


def _typst_cell(value: Value) -> str:
    # A hyphen at the beginning is that of a number, so it is a minus.
    text = "\N{MINUS SIGN}" + value.text[1:] if value.text.startswith("-") else value.text
    return _TYPST_MARKS[value.mark].format(quoted(text))
