"""Methods beside their baseline: score and speed."""

import math
from collections.abc import Callable, Collection, Sequence

import numpy as np
import pandas as pd

from thinwire.base.learning import CLASSIFICATION, LearningTask
from thinwire.report import report_files
from thinwire.report import verdict_words as words
from thinwire.report.paired import MARGIN_OF_SPEED, Judged, compare, judge
from thinwire.report.rows.quantities import BLOCK, SETTING, untrained

# The columns that follow from a difference in scores.
_OF_SCORES: dict[str, Callable[[Judged], object]] = {
    "n": lambda judged: judged.comparison.n,
    "gain_mean": lambda judged: judged.comparison.mean,
    "gain_sd": lambda judged: judged.comparison.sd,
    "gain_low": lambda judged: judged.comparison.low,
    "gain_high": lambda judged: judged.comparison.high,
    "margin": lambda judged: judged.comparison.margin,
    "p_different": lambda judged: judged.comparison.p_different,
    "p_different_holm": lambda judged: judged.p_different_holm,
    "p_same": lambda judged: judged.comparison.p_same,
    "p_same_holm": lambda judged: judged.p_same_holm,
    "detectable": lambda judged: judged.detectable,
}
COLUMNS = (*SETTING, "method", "kind", "against", *_OF_SCORES, "verdict", "words")


def noise_floor(runs: pd.DataFrame, baseline: str, again: str | None, task: LearningTask) -> float:
    """What tuning leaves to chance: the largest mean difference between the baseline and itself, tuned again.

    Of all settings, in pairs; 0 if nothing was tuned again, and infinite if that is not known.
    """
    if again is None:
        return 0.0
    found = [
        abs((_gains(here, again, task) - _gains(here, baseline, task)).mean())
        for _, here in runs.groupby(BLOCK, sort=False)
    ]
    return max((size for size in found if not math.isnan(size)), default=math.inf)


def comparisons(
    runs: pd.DataFrame,
    baseline: str,
    task: LearningTask,
    floor: float = 0.0,
    same_tuning: Collection[str] = (),
) -> pd.DataFrame:
    """One row for each setting, kind and method, without the baseline itself, in the order of the runs.

    Pairs are runs with the same repetition that are done. The methods of one setting and kind are judged
    together. A method that is skipped in every run of a setting has no row there.

    Args:
        runs: one row for each run.
        baseline: label of the method to compare with.
        task: what the runs learn.
        floor: as `noise_floor` gives it.
        same_tuning: methods that have the baseline's tuning, so that chance in it changes no difference.
    """
    ran = runs[runs.status != "skipped"]
    rows: list[dict[str, object]] = []
    at_chance = untrained(ran, baseline, task)
    for place, here in ran.groupby(BLOCK, sort=False):
        names = dict(zip(BLOCK, place)) | {"against": baseline}
        theirs, least = _gains(here, baseline, task), resolution(here, task)
        methods = [method for method in dict.fromkeys(here.method) if method != baseline]
        floors = [0.0 if method in same_tuning else floor for method in methods]
        family = judge(
            [
                compare(_gains(here, method, task), theirs, task.margin, least, own)
                for method, own in zip(methods, floors)
            ]
        )
        for method, judged in zip(methods, family):
            lost = _lost(here, method, baseline)
            verdict, said = words.on_score(judged, task.unit, place in at_chance, lost)
            rows.append(
                {
                    **names,
                    "method": method,
                    **{name: of(judged) for name, of in _OF_SCORES.items()},
                    "verdict": verdict.value,
                    "words": said,
                }
            )
    return report_files.with_table_digits(pd.DataFrame(rows, columns=list(COLUMNS)))


def _lost(runs: pd.DataFrame, method: str, baseline: str) -> int:
    """The pairs of which a run diverged or failed."""
    statuses = runs.pivot(index="repetition", columns="method", values="status")
    pairs = statuses.reindex(columns=[method, baseline]).dropna()
    return int((pairs != "done").any(axis=1).sum())


def resolution(runs: pd.DataFrame, task: LearningTask) -> float:
    """From one possible score to the next: one image, in percentage points; bits take any value."""
    return float(100 / runs.evaluated_images.min()) if task is CLASSIFICATION else 0.0


def _gains(runs: pd.DataFrame, method: str, task: LearningTask) -> pd.Series:
    """The scores of the method's runs that are done, more is better, with the repetition as index."""
    done = runs[(runs.method == method) & (runs.status == "done")]
    return task.sign * done.set_index("repetition").score


# Kinds of runs that have times of their own. A simulated time repeats exactly, so it has a ratio and no test.
TIMED = ("measured", "emulated")


# The columns that follow from differences of the logarithms of seconds.
_OF_SPEED: dict[str, Callable[[Judged], object]] = {
    "n": lambda judged: judged.comparison.n,
    "speed_up": lambda judged: np.exp(judged.comparison.mean),
    "speed_up_low": lambda judged: np.exp(judged.comparison.low),
    "speed_up_high": lambda judged: np.exp(judged.comparison.high),
    "p_different": lambda judged: judged.comparison.p_different,
    "p_different_holm": lambda judged: judged.p_different_holm,
    "detectable_factor": lambda judged: np.exp(judged.detectable),
    "words": lambda judged: words.on_speed(judged).words,
}
SPEED_UP_COLUMNS = (*SETTING, "cluster", "method", "kind", "against", *_OF_SPEED)
_OF_THE_FASTEST = {
    **dict.fromkeys(("speed_up", "speed_up_low", "speed_up_high"), 1.0),
    **dict.fromkeys(("p_different", "p_different_holm", "detectable_factor"), math.nan),
    "words": "the fastest baseline",
}


def speed_ups(runs: pd.DataFrame, baselines: Sequence[str]) -> pd.DataFrame:
    """One row for each setting, cluster, kind and method with times, in the order of the runs.

    The times of a step are compared in pairs: runs of a block have the same repetition, and follow each other
    on the same machines. The speed-up is `exp` of the mean difference of the logarithms. The methods of one
    setting, cluster and kind are judged together. The fastest baseline has a speed-up of 1 by construction,
    and no test. Simulated times are no runs, so they have no row here: they repeat exactly, and a test of
    them would mean nothing.

    Args:
        runs: one row for each run. Those that are not done or have no times are left out.
        baselines: labels of the baselines. All methods are compared with the fastest of them.
    """
    rows: list[dict[str, object]] = []
    place = [*SETTING, "cluster", "kind"]
    timed = runs[(runs.status == "done") & runs.kind.isin(TIMED)] if "train_seconds" in runs else runs[:0]
    for names, here in timed.assign(cluster=timed.cluster.fillna("")).groupby(place, sort=False):
        logs = _log_seconds(here[here.train_seconds.notna()])
        # The first of several; of several runs the geometric mean counts, as in the speed-up.
        seconds = {label: float(np.exp(logs[label].mean())) for label in baselines if label in logs}
        if not seconds:
            continue
        against = min(seconds, key=seconds.__getitem__)
        others = {label: log for label, log in logs.items() if label != against}
        judged = judge([compare(logs[against], log, MARGIN_OF_SPEED) for log in others.values()])
        found: dict[str, dict[str, object]] = {against: {**_OF_THE_FASTEST, "n": len(logs[against])}}
        for label, own in zip(others, judged):
            found[label] = {name: of(own) for name, of in _OF_SPEED.items()}
        where = {**dict(zip(place, names)), "against": against}
        rows += [{**where, "method": label, **found[label]} for label in logs]
    return report_files.with_table_digits(pd.DataFrame(rows, columns=list(SPEED_UP_COLUMNS)))


def _log_seconds(runs: pd.DataFrame) -> dict[str, pd.Series]:
    """The logarithms of the seconds of a step of each method, with the repetition as index."""
    logs = pd.Series(np.log((runs.train_seconds / runs.steps).to_numpy(float)), runs.repetition)
    return {str(label): own for label, own in logs.groupby(runs.method.to_numpy(), sort=False)}


_KEY = [*SETTING, "method", "kind"]
# The columns of the summary that follow from a comparison.
_ADDED = ["n", "gain_mean", "gain_low", "gain_high", "verdict", "words"]


def with_comparisons(table: pd.DataFrame, comparisons: pd.DataFrame) -> pd.DataFrame:
    """Add the columns `_ADDED`; they are empty in rows that are compared with nothing, or in one pair each.

    Args:
        table: from `summarise`.
        comparisons: one row for each setting, method and kind, in pairs of runs with the suite's baseline.
    """
    if comparisons.empty or comparisons.n.max() < report_files.FEWEST_REPETITIONS:
        return table.assign(**dict.fromkeys(_ADDED))
    return table.merge(comparisons[[*_KEY, *_ADDED]], on=_KEY, how="left", validate="one_to_one")
