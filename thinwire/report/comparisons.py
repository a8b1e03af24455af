"""The table `comparisons.csv`: the accuracy of each method, compared with the baseline in pairs."""

from pathlib import Path

import pandas as pd

from thinwire.report import table_file
from thinwire.report.savings import CELL
from thinwire.statistics import words
from thinwire.statistics.paired import compare
from thinwire.statistics.verdict import Judged, judge

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
    return table_file.with_table_digits(pd.DataFrame(rows, columns=list(COLUMNS)))


def resolution_points(runs: pd.DataFrame) -> float:
    """What one image more or less changes in an accuracy, in percentage points."""
    return float(100 / runs.evaluated_images.min())


def write(table: pd.DataFrame, folder: Path) -> None:
    """Write `comparisons.csv`."""
    table_file.write(table, folder / "comparisons.csv")


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
