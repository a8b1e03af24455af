"""Tables of the paper in LaTeX."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from thinwire.paper.latex import Element

_RAGGED = {"left": r"\raggedright", "right": r"\raggedleft"}
_LETTER = {"left": "l", "right": "r", "center": "c"}

Text = Callable[[Element], str]


class _Column(NamedTuple):
    share: float | None  # of the width that is left; None: as wide as its content
    align: str


def fixed_table(table: Element, text: Text) -> str:
    """A table that fits on a page, as wide as the column or page around it.

    Args:
        table: the element, as `typst query` prints it.
        text: writes the content of a cell.
    """
    columns = _columns(table)
    shares = [column.share for column in columns if column.share is not None]
    mean = sum(shares) / len(shares) if shares else 1.0
    kinds = [
        _LETTER[column.align]
        if column.share is None
        else rf">{{\hsize={column.share / mean:.4g}\hsize{_RAGGED[column.align]}\arraybackslash}}X"
        for column in columns
    ]
    body = "\n".join(_lines(table, len(columns), text))
    return "\n".join(
        (
            r"\footnotesize",
            rf"\begin{{tabularx}}{{\linewidth}}{{@{{}}{''.join(kinds)}@{{}}}}",
            body,
            r"\end{tabularx}",
        )
    )


def long_table(table: Element, text: Text) -> str:
    """A table that may break between pages; its columns have fixed shares of the width.

    Args:
        table: the element, as `typst query` prints it.
        text: writes the content of a cell.
    """
    columns = _columns(table)
    whole = sum(column.share or 1.0 for column in columns)
    kinds = [
        rf">{{{_RAGGED[column.align]}\arraybackslash}}"
        rf"p{{\dimexpr {(column.share or 1.0) / whole:.4g}\linewidth-2\tabcolsep}}"
        for column in columns
    ]
    body = "\n".join(_lines(table, len(columns), text, below_heading=r" \endhead"))
    return f"\n{{\\footnotesize\n\\begin{{longtable}}{{{''.join(kinds)}}}\n{body}\n\\end{{longtable}}}}\n"


def _columns(table: Element) -> list[_Column]:
    sizes, align = table["columns"], table["align"]
    sides = align if isinstance(align, list) else [align] * len(sizes)
    return [
        _Column(float(size.removesuffix("fr")) if size.endswith("fr") else None, side)
        for size, side in zip(sizes, sides, strict=True)
    ]


def _lines(table: Element, columns: int, text: Text, below_heading: str = "") -> Iterator[str]:
    """The lines of a table: the heading between two rules, the rows, and a rule."""
    heading, rows = [], []
    for child in table["children"]:
        if child["func"] == "header":
            heading = child["children"]
        elif child["func"] == "cell":
            rows.append(child)
    yield r"\toprule"
    yield from _rows(heading, columns, text)
    yield r"\midrule" + below_heading
    yield from _rows(rows, columns, text)
    yield r"\bottomrule"


def _rows(cells: Sequence[Element], columns: int, text: Text) -> Iterator[str]:
    """The rows that cells fill one after the other; below a cell of several rows is nothing."""
    row, column, line, covered = 0, 0, list[str](), set[tuple[int, int]]()
    for cell in cells:
        while (row, column) in covered:
            line.append("")
            column += 1
        width, content = cell.get("colspan", 1), text(cell["body"]).strip()
        line.append(
            content if width == 1 else rf"\multicolumn{{{width}}}{{{_LETTER[cell['align']]}}}{{{content}}}"
        )
        covered |= {(row + below, column) for below in range(1, cell.get("rowspan", 1))}
        column += width
        if column == columns:
            yield rf"{' & '.join(line)} \\"
            row, column, line = row + 1, 0, []
