"""A summary in LaTeX: a `table` for each block. The document that includes it needs the package booktabs."""

import re
import unicodedata
from collections.abc import Iterable, Sequence

from thinwire.report.tables.blocks import Block, Value, is_text
from thinwire.report.tables.marks import Mark

_MARKED = {Mark.NONE: "{}", Mark.BEST: r"\textbf{{{}}}", Mark.SECOND: r"\underline{{{}}}"}
_ESCAPED = {
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
    parts = ["% Needs \\usepackage{booktabs}.", *(_table(title, block) for block in shown)]
    return "\n\n".join([*parts, escaped(" ".join([*([subset] if subset else []), *notes]))]) + "\n"


def escaped(text: str) -> str:
    """Plain text for any font encoding: accents are dropped, and unknown characters become question marks."""
    apart = re.sub(r"-(?=-)", "-\0", text)  # two hyphens would become a dash
    return "".join(_ESCAPED.get(character) or _ascii(character) for character in apart)


def _ascii(character: str) -> str:
    if character.isascii():
        return character if character.isprintable() else "{}"
    plain = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    return "".join(_ESCAPED.get(part, part) for part in plain) or "?"


def _table(title: str, block: Block) -> str:
    alignment = "".join("l" if is_text(column) else "r" for column in block.columns)
    lines = [
        r"\begin{table}",
        r"\centering\small",
        rf"\caption{{{escaped(f'{title}: {block.heading}. {block.origin}')}}}",
        rf"\begin{{tabular}}{{{alignment}}}",
        r"\toprule",
        _row(escaped(column) for column in block.columns),
        r"\midrule",
        *(_row(map(_cell, row)) for row in block.rows),
        r"\bottomrule",
        r"\end{tabular}",
        *([r"\par\smallskip", escaped(" ".join(block.remarks))] if block.remarks else []),
        r"\end{table}",
    ]
    return "\n".join(lines)


def _row(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"


def _cell(value: Value) -> str:
    text = escaped(value.text)
    if value.text.startswith("-"):  # of a number, so it is a minus and no hyphen
        text = "$-$" + escaped(value.text[1:])
    return _MARKED[value.mark].format(text)
