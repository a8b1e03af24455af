"""What follows from times that are simulated without data: the regimes of the publications, and the map.

Each published gain in time is simulated on the network and cluster of its publication, and it is asked at
which rates of a node's link its number would hold.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from thinwire.base.files import write_text
from thinwire.report import report_files
from thinwire.report.figures.times_map import MAP, shown, write_map
from thinwire.report.plan_table import PLACE
from thinwire.report.report_files import fixed
from thinwire.report.rows.quantities import faster_ranges
from thinwire.simulation import simulated_file

Row = dict[str, object]
_CLUSTER = [column for column in PLACE if column not in ("rate_gbit_per_second", "latency_seconds")]


@dataclass(frozen=True)
class Published:
    """A gain in time that a publication gives, as its abstract may be read."""

    publication: str
    says: str
    gain: float  # a step of the baseline over that of the method
    suite: str
    method: str  # its name in the table
    baselines: Sequence[str]  # those of the publication; each has a row
    rates: Sequence[float]  # in Gbit/s: of its own cluster, or those that are asked about
    mixed: Mapping[str, float] | None = None  # of the steps: how many are those of each label

    @property
    def shares(self) -> Mapping[str, float]:
        """Of the steps: how many are those of each label."""
        return self.mixed or {self.method: 1.0}


# DASO has 8 blocking epochs of 90; the others have its first interval.
_DASO = {"daso": 8 / 90, "daso_cycling": 82 / 90}
_OF_DASO = ("ssgd_no_overlap", "ssgd", "ssgd_bf16")
_OF_DELAY = ("ssgd", "local_sgd_4")
_SERVERS = (1.0, 10.0)
PUBLISHED = (
    Published("DASO", "34 % less time", 1 / (1 - 0.34), "times/daso", "daso", _OF_DASO, (800.0,), _DASO),
    Published("HSGD", "20 times a naive strategy", 20.0, "times/hsgd", "hsgd", ("naive",), (25.0,)),
    Published("Hylo", "30 % faster", 1.3, "times/hylo", "hylo", ("ps_sgd",), _SERVERS),
    Published("MP2", "47.32 % faster", 1.4732, "times/mp2", "mp2", ("bsp",), _SERVERS),
    Published("MP2", "47.32 % less time", 1 / (1 - 0.4732), "times/mp2", "mp2", ("bsp",), _SERVERS),
    Published(
        "multi-step delay", "faster", 1.0, "times/multi_step_delay", "multi_step_delay", _OF_DELAY, _SERVERS
    ),
)


def regimes(times: pd.DataFrame, published: Sequence[Published] = PUBLISHED) -> pd.DataFrame:
    """A row for each publication, network, number of workers and of nodes, baseline, and rate of its own.

    Methods that were not simulated have no rows.

    Args:
        times: as `simulated_file.read_times` gives them; suites that are not there have no rows.
        published: gains.

    Returns:
        `publication` to `rate_gbit_per_second`, `gain` and `gain_over_best_ssgd` at this rate, then the rates
        between which the published gain is reached: interpolated between simulated ones on logarithmic axes.
        NaN: at none; 0 or infinite: also at the least or the highest simulated one. Of several such ranges it
        is the one with the highest rates. `holds` says it in words.
    """
    made = [
        row
        for one in published
        for place, own in times[times.suite == one.suite].groupby(_CLUSTER, sort=False)
        for row in _rows(one, dict(zip(_CLUSTER, place)), own)
    ]
    return pd.DataFrame(made)


def _rows(one: Published, place: Mapping[str, object], own: pd.DataFrame) -> Iterator[Row]:
    # Of links of one rate, that with the least latency.
    own = own[own.latency_seconds == own.groupby("rate_gbit_per_second").latency_seconds.transform("min")]
    seconds = own.pivot(index="rate_gbit_per_second", columns="method", values="step_seconds")
    if not one.shares.keys() <= set(seconds):
        return
    ours = (seconds[[*one.shares]] * pd.Series(one.shares)).sum(axis=1, skipna=False)
    best = own.groupby("rate_gbit_per_second").baseline.first().fillna("")
    for baseline in (label for label in one.baselines if label in seconds):
        gains = seconds[baseline] / ours
        low, high = (faster_ranges(list(gains.index), list(gains / one.gain)) or [(math.nan, math.nan)])[-1]
        for rate in (rate for rate in one.rates if rate in gains.index):
            of_best = seconds[best[rate]][rate] if best[rate] else math.nan
            yield {
                "publication": one.publication,
                "says": one.says,
                "published_gain": one.gain,
                **place,
                "kind": "simulated",
                "method": one.method,
                "against": baseline,
                "rate_gbit_per_second": rate,
                "gain": gains[rate],
                "best_ssgd": best[rate],
                "gain_over_best_ssgd": of_best / ours[rate],
                "holds_from_gbit_per_second": low,
                "holds_to_gbit_per_second": high,
                "holds": in_words(low, high, gains.index.min(), gains.index.max()),
            }


def in_words(low: float, high: float, least: float, most: float) -> str:
    """At which rates a published gain is reached.

    Args:
        low: the lowest of them in Gbit/s; 0: the least that was simulated; NaN: there is none.
        high: the highest; infinite: the most that was simulated.
        least: that was simulated.
        most: that was simulated.
    """
    if math.isnan(low):
        return f"none from {least:g} to {most:g}"
    if math.isinf(high):
        return f"from {_rounded(low)} on" if low else f"all from {least:g} to {most:g}"
    return f"{_rounded(low)} to {_rounded(high)}" if low else f"up to {_rounded(high)}"


def _rounded(rate: float) -> str:
    """With two significant digits, and never as a power of ten."""
    return f"{float(f'{rate:.2g}'):g}"


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
    times = simulated_file.read_times(results)
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
