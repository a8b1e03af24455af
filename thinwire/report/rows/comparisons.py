"""Methods beside their baseline: accuracy, bytes and speed."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from thinwire.report import report_files
from thinwire.report.rows.quantities import BLOCK, CELL
from thinwire.report.statistics import words
from thinwire.report.statistics.paired import Judged, compare, judge
from thinwire.report.statistics.speed import TIMED, compare_speed

# The columns that follow from a difference in accuracy.
_OF_ACCURACY: dict[str, Callable[[Judged], object]] = {
    "n": lambda judged: judged.comparison.n,
    "difference_mean_points": lambda judged: judged.comparison.mean,
    "difference_sd_points": lambda judged: judged.comparison.sd,
    "difference_low_points": lambda judged: judged.comparison.low,
    "difference_high_points": lambda judged: judged.comparison.high,
    "margin_points": lambda judged: judged.comparison.margin,
    "p_different": lambda judged: judged.comparison.p_different,
    "p_different_holm": lambda judged: judged.p_different_holm,
    "p_same": lambda judged: judged.comparison.p_same,
    "p_same_holm": lambda judged: judged.p_same_holm,
    "detectable_points": lambda judged: judged.comparison.detectable,
    "verdict": lambda judged: words.on_accuracy(judged).verdict.value,
    "words": lambda judged: words.on_accuracy(judged).words,
}
COLUMNS = (*CELL, "method", "kind", "against", *_OF_ACCURACY)


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
    for place, here in ran.groupby(BLOCK, sort=False):
        names = dict(zip(BLOCK, place)) | {"against": baseline}
        theirs, one_image = _accuracies(here, baseline), resolution_points(here)
        methods = [method for method in dict.fromkeys(here.method) if method != baseline]
        family = judge(
            [compare(_accuracies(here, method), theirs, resolution=one_image) for method in methods]
        )
        rows += [
            {**names, "method": method, **{name: of(judged) for name, of in _OF_ACCURACY.items()}}
            for method, judged in zip(methods, family)
        ]
    return report_files.with_table_digits(pd.DataFrame(rows, columns=list(COLUMNS)))


def resolution_points(runs: pd.DataFrame) -> float:
    """What one image more or less changes in an accuracy, in percentage points."""
    return float(100 / runs.evaluated_images.min())


def _accuracies(runs: pd.DataFrame, method: str) -> pd.Series:
    """The accuracies of the method's runs that are done, in percent, with the repetition as index."""
    done = runs[(runs.method == method) & (runs.status == "done")]
    return done.set_index("repetition").test_accuracy_percent


# The columns that follow from differences of the logarithms of seconds.
_OF_SPEED: dict[str, Callable[[Judged], object]] = {
    "n": lambda judged: judged.comparison.n,
    "speed_up": lambda judged: np.exp(judged.comparison.mean),
    "speed_up_low": lambda judged: np.exp(judged.comparison.low),
    "speed_up_high": lambda judged: np.exp(judged.comparison.high),
    "p_different": lambda judged: judged.comparison.p_different,
    "p_different_holm": lambda judged: judged.p_different_holm,
    "detectable_factor": lambda judged: np.exp(judged.comparison.detectable),
    "words": lambda judged: words.on_speed(judged).words,
}
SPEED_UP_COLUMNS = (*CELL, "cluster", "method", "kind", "against", *_OF_SPEED)
_OF_THE_FASTEST = {
    **dict.fromkeys(("speed_up", "speed_up_low", "speed_up_high"), 1.0),
    **dict.fromkeys(("p_different", "p_different_holm", "detectable_factor"), math.nan),
    "words": "the fastest baseline",
}


def speed_ups(runs: pd.DataFrame, baselines: Sequence[str]) -> pd.DataFrame:
    """One row for each cell, cluster, kind and method with times, in the order of the runs.

    The methods of one cell, cluster and kind are judged together. The fastest baseline has a speed-up of 1 by
    construction, and no test. Simulated times are no runs, so they have no row here: they repeat exactly, and
    a test of them would mean nothing.

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
            row: dict[str, object] = {**_OF_THE_FASTEST, "n": made.n}
            if method != against:
                own = next(judged)
                row = {name: of(own) for name, of in _OF_SPEED.items()}
            rows.append({**dict(zip(place, names)), "method": method, "against": against, **row})
    return report_files.with_table_digits(pd.DataFrame(rows, columns=list(SPEED_UP_COLUMNS)))
