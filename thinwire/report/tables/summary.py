"""The summary of a suite in blocks, and these as Markdown, LaTeX and typst."""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import pandas as pd

from thinwire.base.errors import in_one_line
from thinwire.report.rows.quantities import BLOCK
from thinwire.report.tables import numbers
from thinwire.report.tables.about import About, partition_in_words
from thinwire.report.tables.numbers import Mark

_RUNS = {
    "inprocess": "in one process, so without measured times",
    "measured": "measured, with a process for each worker",
    "emulated": "emulated, with a process for each worker",
}


class Value(NamedTuple):
    """A value in a table."""

    text: str
    mark: Mark = Mark.NONE


class Block(NamedTuple):
    """One table with what stands around it, in plain text."""

    heading: str
    origin: str  # how its runs and times were made
    columns: list[str]
    rows: list[list[Value]]
    remarks: list[str]  # sentences: why scores cannot be compared, and why runs failed


def is_text(column: str) -> bool:
    """Does this column have words? The others have numbers."""
    return column == "method" or column.startswith("against ")


def blocks(table: pd.DataFrame, about: About) -> list[Block]:
    """The blocks of a summary with the columns of `summarise`, `with_comparisons` and `with_times`."""
    return [_block(block, about) for _, block in table.groupby(BLOCK, sort=False)]


def _block(block: pd.DataFrame, about: About) -> Block:
    first = block.iloc[0]
    shown = {
        "method": _plain(_methods(block, about)),
        "payload, MB": _plain(map(numbers.megabytes, block.total_bytes)),
    }
    saved = map(numbers.percent, block.total_with_prepared_reduction_percent)
    if block.preparation_bytes.notna().any():
        shown["saved, %"] = _plain(map(numbers.percent, block.total_reduction_percent))
        shown["saved with preparation, %"] = _marked(saved, numbers.of_savings(block))
    else:
        shown["saved, %"] = _marked(saved, numbers.of_savings(block))
    shown[f"{about.evaluated_on.replace('_', '-')} {about.task.axis}"] = _marked(
        (numbers.score(row, about.task.unit.digits) for _, row in block.iterrows()),
        numbers.of_scores(block, about.baseline),
    )
    if block.words.notna().any():
        shown[f"against {about.baseline}"] = _plain(_verdicts(block, about.baseline))
    if block.seconds_to_target.notna().any():
        seconds = map(numbers.to_target, block.seconds_to_target)
        shown["to target, s"] = _marked(seconds, numbers.of_seconds_to_target(block, about.baseline))
    if block.step_speed_up.notna().any():
        shown["speed-up"] = _marked(map(numbers.ratio, block.step_speed_up), numbers.of_speed_ups(block))
    partition = partition_in_words(block)
    failures = [f"{label}: {in_one_line(why)}." for label, why in zip(block.method, block.reason) if why]
    return Block(
        heading=numbers.place(first),
        origin=_origin(first, about) + (f" Partition: {partition}." if partition else ""),
        columns=list(shown),
        rows=[list(row) for row in zip(*shown.values())],
        remarks=[*_inconclusive(block, about.baseline), *failures],
    )


def _plain(texts: Iterable[str]) -> list[Value]:
    return [Value(text) for text in texts]


def _marked(texts: Iterable[str], found: list[Mark]) -> list[Value]:
    return [Value(text, mark) for text, mark in zip(texts, found)]


def _methods(block: pd.DataFrame, about: About) -> list[str]:
    """Labels, with the epochs where methods of the block differ in them, and whose preparation is used."""
    same_epochs = block.epochs.nunique() == 1 and block.virtual_epochs.isna().all()
    found = []
    for _, row in block.iterrows():
        more = [] if same_epochs else [f"{numbers.epochs(row)} epochs"]
        if row.method in about.prepared_from:
            more.append(f"prepared from {about.prepared_from[row.method]}")
        found.append(f"{row.method} ({', '.join(more)})" if more else str(row.method))
    return found


def _origin(first: pd.Series, about: About) -> str:
    runs = _RUNS[first.kind]
    if first.kind == "emulated" and about.cluster:
        runs += f", on the cluster {about.cluster}"
    text = f"Runs: {runs}."
    if not pd.isna(first.time_from):
        text += f" Times: {first.time_from}"
        elsewhere = first.time_nodes != first.nodes
        text += f", where the workers fill {first.time_nodes:g} nodes." if elsewhere else "."
    return text


def _verdicts(block: pd.DataFrame, baseline: str) -> list[str]:
    """The words of the comparison up to a colon; what comes after it stands below the table."""
    words = block.words.fillna("").str.partition(":")[0]
    return ["baseline" if method == baseline else text for method, text in zip(block.method, words)]


def _inconclusive(block: pd.DataFrame, baseline: str) -> list[str]:
    """The words with a colon in full, with the methods for which they hold."""
    compared = block[block.words.notna() & (block.method != baseline)]
    found: dict[str, list[str]] = {}
    for words, label in zip(compared.words, compared.method):
        found.setdefault(words, []).append(label)
    return [
        f"{words[0].upper()}{words[1:]} ({'every method' if len(found) == 1 else ', '.join(labels)})."
        for words, labels in found.items()
        if ":" in words
    ]


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
