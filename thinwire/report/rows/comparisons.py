"""Methods beside their baseline: accuracy, bytes and speed."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from thinwire.report import report_files
from thinwire.report.rows.quantities import CELL
from thinwire.report.statistics import words
from thinwire.report.statistics.paired import compare
from thinwire.report.statistics.speed import TIMED, compare_speed
from thinwire.report.statistics.verdict import Judged, judge

COLUMNS = (
    *CELL,
    "method",
    "kind",
    "against",
    "n",
    "difference_mean_points",
    "difference_sd_points",
    "difference_low_points",
    "difference_high_points",
    "margin_points",
    "p_different",
    "p_different_holm",
    "p_same",
    "p_same_holm",
    "detectable_points",
    "verdict",
    "words",
)


def comparisons(runs: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """One row for each cell, kind and method, without the baseline itself, in the order of the runs.

    Pairs are runs with the same repetition that are done. The methods of one cell and kind are judged
    together. A method that is skipped in every run of a cell has no row there.

    Args:
        runs: one row for each run.
        baseline: label of the method to compare with.
    """
    ran = runs[runs.status != "skipped"]
    rows: list[dict[str, object]] = []
    for place, here in ran.groupby([*CELL, "kind"], sort=False):
        names = dict(zip([*CELL, "kind"], place))
        theirs, one_image = _accuracies(here, baseline), resolution_points(here)
        methods = [method for method in dict.fromkeys(here.method) if method != baseline]
        family = judge(
            [compare(_accuracies(here, method), theirs, resolution=one_image) for method in methods]
        )
        rows += [
            {**names, "method": method, "against": baseline, **_row(judged)}
            for method, judged in zip(methods, family)
        ]
    return report_files.with_table_digits(pd.DataFrame(rows, columns=list(COLUMNS)))


def resolution_points(runs: pd.DataFrame) -> float:
    """What one image more or less changes in an accuracy, in percentage points."""
    return float(100 / runs.evaluated_images.min())


def write(table: pd.DataFrame, folder: Path) -> None:
    """Write `comparisons.csv`."""
    report_files.write_table(table, folder / "comparisons.csv")


def _accuracies(runs: pd.DataFrame, method: str) -> pd.Series:
    """The accuracies of the method's runs that are done, in percent, with the repetition as index."""
    done = runs[(runs.method == method) & (runs.status == "done")]
    return done.set_index("repetition").test_accuracy_percent


def _row(judged: Judged) -> dict[str, object]:
    difference, (verdict, said) = judged.comparison, words.on_accuracy(judged)
    return {
        "n": difference.n,
        "difference_mean_points": difference.mean,
        "difference_sd_points": difference.sd,
        "difference_low_points": difference.low,
        "difference_high_points": difference.high,
        "margin_points": difference.margin,
        "p_different": difference.p_different,
        "p_different_holm": judged.p_different_holm,
        "p_same": difference.p_same,
        "p_same_holm": judged.p_same_holm,
        "detectable_points": difference.detectable,
        "verdict": verdict.value,
        "words": said,
    }


SPEED_UP_COLUMNS = (
    *CELL,
    "cluster",
    "method",
    "kind",
    "against",
    "n",
    "speed_up",
    "speed_up_low",
    "speed_up_high",
    "p_different",
    "p_different_holm",
    "detectable_factor",
    "words",
)
_OF_THE_FASTEST = {
    **dict.fromkeys(("speed_up", "speed_up_low", "speed_up_high"), 1.0),
    **dict.fromkeys(("p_different", "p_different_holm", "detectable_factor"), math.nan),
    "words": "the fastest baseline",
}


def speed_ups(runs: pd.DataFrame, baselines: Sequence[str]) -> pd.DataFrame:
    """One row for each cell, cluster, kind and method with times, in the order of the runs.

    The methods of one cell, cluster and kind are judged together. The fastest baseline has a speed-up of 1 by
    construction, and no test. Simulated times are no runs, so they have
    no row here: they repeat exactly, and a test of them would mean nothing.

    Args:
        runs: one row for each run.
        baselines: labels of the baselines. All methods are compared with the fastest of them.
    """
    place = [*CELL, "cluster", "kind"]
    timed = runs[runs.kind.isin(TIMED)]
    rows: list[dict[str, object]] = []
    for names, here in timed.assign(cluster=timed.cluster.fillna("")).groupby(place, sort=False):
        found = {method: compare_speed(here, method, baselines) for method in dict.fromkeys(here.method)}
        compared = {method: pair for method, pair in found.items() if pair is not None}
        others = [made for method, (against, made) in compared.items() if method != against]
        judged = iter(judge(others))
        for method, (against, made) in compared.items():
            row = _speed_up_row(next(judged)) if method != against else {**_OF_THE_FASTEST, "n": made.n}
            rows.append({**dict(zip(place, names)), "method": method, "against": against, **row})
    return report_files.with_table_digits(pd.DataFrame(rows, columns=list(SPEED_UP_COLUMNS)))


def write_speed_ups(table: pd.DataFrame, folder: Path) -> None:
    """Write `speed_ups.csv`."""
    report_files.write_table(table, folder / "speed_ups.csv")


def _speed_up_row(judged: Judged) -> dict[str, object]:
    logarithm = judged.comparison
    return {
        "n": logarithm.n,
        "speed_up": np.exp(logarithm.mean),
        "speed_up_low": np.exp(logarithm.low),
        "speed_up_high": np.exp(logarithm.high),
        "p_different": logarithm.p_different,
        "p_different_holm": judged.p_different_holm,
        "detectable_factor": np.exp(logarithm.detectable),
        "words": words.on_speed(judged).words,
    }
