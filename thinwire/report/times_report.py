"""What follows from times that are simulated without data: the map, and the regimes of the publications."""

from pathlib import Path

import pandas as pd

from thinwire.base.files import write_text
from thinwire.report import report_files
from thinwire.report.figures.times_map import MAP, shown, write_map
from thinwire.report.report_files import fixed
from thinwire.report.rows.regimes import regimes
from thinwire.simulation import times_file

REGIMES = "regimes"
_HEADS = (
    "publication",
    "network, workers on nodes",
    "published",
    "against",
    "simulated, at Gbit/s",
    "over best SSGD",
    "holds at Gbit/s",
)
# Of one row of the text, which has all rates of a publication.
_ONE = ["publication", "says", "model", "workers", "nodes", "against"]


def write(results: Path) -> list[Path]:
    """Write the map and the table of regimes, each if its suites have times; returns the paths.

    Raises:
        UserError: a file of times is broken.
    """
    times = times_file.read(results)
    made: list[Path] = []
    if times is None:
        return made
    if len(shown(times)):
        write_map(times, results / "figures")
        made.append(results / "figures" / f"{MAP}.pdf")
    found = regimes(times)
    if len(found):
        table = results / "tables" / f"{REGIMES}.csv"
        report_files.write_table(found, table)
        write_text(table.with_suffix(".md"), f"{markdown(found)}\n")
        made.append(table)
    return made


def markdown(found: pd.DataFrame) -> str:
    """The table of regimes as text, with a row for all rates of a publication's own."""
    lines = [_line(_HEADS), _line(["---"] * len(_HEADS))]
    for _, own in found.groupby(_ONE, sort=False):
        one = own.iloc[0]
        rows = own.to_dict("records")
        gains = [f"{_factor(row['gain'])} at {row['rate_gbit_per_second']:g}" for row in rows]
        over = [f"{_factor(row['gain_over_best_ssgd'])} (`{row['best_ssgd']}`)" for row in rows]
        cells = [
            one.publication,
            f"`{one.model}`, {one.workers} on {one.nodes}",
            one.says,
            f"`{one.against}`",
            ", ".join(gains),
            ", ".join(over),
            one.holds,
        ]
        lines.append(_line(cells))
    return "\n".join(lines)


def _factor(value: float) -> str:
    return fixed(value, 2 if value < 9.995 else 1)


def _line(cells: list[str] | tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"
