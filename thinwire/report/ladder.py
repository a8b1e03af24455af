"""The ladder of a suite: the seconds of a step on each rung, and their ratio to those of the first rung."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from thinwire.files import write_text
from thinwire.report import table_file
from thinwire.report.tables import numbers
from thinwire.report.times import PLACE

PARTS = ("compute_seconds", "others_seconds", "server_seconds", "communication_seconds")
# What ladder.csv has, in this order.
COLUMNS = [*PLACE, "rung", "method", "step_seconds", *PARTS, "first_over_this"]
_NOTE = (
    "Each rung makes one change to the one before it. After the rungs come the suite's other methods. "
    "Times: seconds of a step of the first rung, divided by those of this row, with cluster, profile and "
    "kind alike. Simulated times are predictions: docs/simulation.md has their limits."
)


def ladder(times: pd.DataFrame, rungs: Sequence[str]) -> pd.DataFrame:
    """One row for each place, kind and method; the rungs first, from the lowest.

    Args:
        times: one row for each method and place, as `times.times` gives them; links have their own rates.
        rungs: labels, the lowest rung first. A rung without a time has no row.
    """
    own = times[times.own_rate.astype(bool)]
    number = {label: place for place, label in enumerate(rungs)}
    rung = own.method.map(number).astype("Int64")
    first = own[own.method == rungs[0]][[*PLACE, "step_seconds"]]
    both = own.assign(rung=rung).merge(
        first.rename(columns={"step_seconds": "first_seconds"}), on=PLACE, how="left"
    )
    both = both.assign(first_over_this=both.first_seconds / both.step_seconds)
    place = both.groupby(PLACE, sort=False, dropna=False).ngroup()
    ordered = both.assign(place=place).sort_values(["place", "rung"], kind="stable", na_position="last")
    return table_file.with_table_digits(ordered.reindex(columns=COLUMNS).reset_index(drop=True))


def markdown(table: pd.DataFrame, title: str) -> str:
    """The rows in Markdown, with the meaning of the columns."""
    shown = pd.DataFrame(
        {
            "workers": [f"{w} on {n} nodes" if n > 1 else str(w) for w, n in zip(table.workers, table.nodes)],
            "cluster": table.cluster,
            "profile": table.profile,
            "method": table.method,
            "ms a step": list(map(numbers.milliseconds, table.step_seconds)),
            "times": list(map(numbers.ratio, table.first_over_this)),
            "how": table.kind,
        }
    )
    text = shown.to_markdown(index=False, disable_numparse=True)
    return "\n".join([f"# Ladder. {title}", "", text, "", _NOTE, ""])


def write(table: pd.DataFrame, title: str, folder: Path) -> None:
    """Write `ladder.csv` and `ladder.md`."""
    table_file.write(table, folder / "ladder.csv")
    write_text(folder / "ladder.md", markdown(table, title))
