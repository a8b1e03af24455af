"""Steps, bytes and seconds to a target score, and profiles of them."""

import itertools
from collections.abc import Callable, Hashable, Mapping
from enum import StrEnum

import numpy as np
import pandas as pd
import scipy

from thinwire.base.learning import LearningTask
from thinwire.report import report_files
from thinwire.report.paired import LEVEL, holm
from thinwire.report.report_files import FEWEST_REPETITIONS
from thinwire.report.rows.quantities import BLOCK, SETTING, SHARES, at_chance_level, reaching

_GROUP = [*BLOCK, "method"]
_MEDIANS = {f"{cost}_median": cost for cost in ("epochs", "steps", "payload_bytes", "train_seconds")}
COLUMNS = (
    *(*SETTING, "method", "kind", "target_score", "runs", "reached", *_MEDIANS),
    *("expected_epochs", "convergence", "reference_workers"),
)


def to_target(runs: pd.DataFrame, curves: pd.DataFrame, baseline: str, task: LearningTask) -> pd.DataFrame:
    """One row for each setting, kind, method and target, in the order of the runs; skipped runs do not count.

    A run that does not reach the target needs infinitely many epochs, steps, bytes and seconds. There is no
    row where no run of the baseline is done, where guessing reaches the least target, nor in a suite with one
    repetition. The bytes include those of the method's preparation.

    Args:
        runs: one row for each run.
        curves: one row for each evaluation of each run.
        baseline: label of the method whose score sets the targets.
        task: what the runs learn.
    """
    repeated = runs.repetition.nunique() >= FEWEST_REPETITIONS
    ran = runs[(runs.status != "skipped") & repeated]
    every = dict(iter(curves.sort_values("step").groupby(_GROUP)))
    rows: list[dict[str, object]] = []
    for place, here in ran.groupby(BLOCK, sort=False):
        own = here[here.method == baseline]
        done = own[own.status == "done"]
        if done.empty:
            continue
        targets = [task.target(done.score.mean(), share) for share in SHARES]
        if (at_chance_level(own.assign(score=targets[0]), task) > 0).any():
            continue
        one_worker = _one_worker(ran, own, baseline)
        reference = own if one_worker.empty else one_worker
        of_reference = _curves(reference, every)
        methods = {str(label): group for label, group in here.groupby("method", sort=False)}
        others = [method for method, group in methods.items() if not group.index.equals(reference.index)]
        of_place: dict[str, list[dict[str, object]]] = {method: [] for method in methods}
        for target in targets:
            needs = {m: _needs(group, _curves(group, every), target, task) for m, group in methods.items()}
            allowed = _needs(reference, of_reference, target, task).epochs
            epochs = {method: needs[method].epochs for method in others}
            found = convergences(epochs, allowed, reference.epochs.max())
            for method, own_needs in needs.items():
                row = {**dict(zip(BLOCK, place)), "method": method, "target_score": target}
                row |= _summary(own_needs) | {"reference_workers": reference.workers.iloc[0]}
                row["convergence"] = found.get(method, Convergence.REFERENCE).value
                of_place[method].append(row)
        rows += itertools.chain(*of_place.values())
    return report_files.with_table_digits(pd.DataFrame(rows, columns=list(COLUMNS)))


StepsToTarget = Callable[[tuple[str, str, int, int], str], tuple[float, float]]


def steps_to_target(needed: pd.DataFrame) -> StepsToTarget:
    """Make a function that looks up the last target and the median steps to it; NaN where there is none.

    It takes a place (data set, model, workers, nodes) and a method. Where no run has as many nodes, those
    with as many workers count.

    Args:
        needed: the table of `to_target`.
    """
    last = needed.drop_duplicates([*BLOCK, "method"], keep="last")
    every = dict(iter(last.groupby(SETTING)))

    def look_up(place: tuple[str, str, int, int], method: str) -> tuple[float, float]:
        alike = [rows for other, rows in every.items() if other[:3] == place[:3]]
        there = every.get(place, alike[0] if alike else last[:0])
        own = there[there.method == method].steps_median
        return there.target_score.max(), own.max()

    return look_up


def _curves(runs: pd.DataFrame, every: dict[tuple[Hashable, ...], pd.DataFrame]) -> pd.DataFrame:
    """The evaluations of the runs of one method in one setting; none if they ended before their first."""
    return every.get(tuple(runs[_GROUP].iloc[0]), next(iter(every.values()))[:0])


def _needs(runs: pd.DataFrame, curves: pd.DataFrame, target: float, task: LearningTask) -> pd.DataFrame:
    """What each run needs to reach the target, infinite for a miss, with the repetition as index.

    `train_seconds` is missing where the run has no times; `spent_epochs` counts the epochs of misses, too.
    """
    first = reaching(curves, target, task).reindex(runs.repetition)
    last = curves.groupby("repetition").last().reindex(runs.repetition)
    payload = first.payload_push_bytes + first.payload_pull_bytes + first.preparation_payload_bytes
    seconds = pd.Series(np.nan, index=first.index)
    if "train_seconds" in curves:
        seconds = first.train_seconds.fillna(np.inf).where(last.train_seconds.notna())
    return pd.DataFrame(
        {
            "epochs": first.epoch.fillna(np.inf),
            "steps": first.step.fillna(np.inf),
            "payload_bytes": payload.fillna(np.inf),
            "train_seconds": seconds,
            "spent_epochs": first.epoch.fillna(last.epoch).fillna(0.0),
        }
    )


def _summary(needs: pd.DataFrame) -> dict[str, object]:
    reached = int(np.isfinite(needs.epochs).sum())
    return {
        "runs": len(needs),
        "reached": reached,
        **{median: needs[cost].median() for median, cost in _MEDIANS.items()},
        "expected_epochs": needs.spent_epochs.sum() / reached if reached else np.inf,
    }


def _one_worker(runs: pd.DataFrame, own: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """The baseline's runs with one worker that train like these: the same batch of the run, and epochs."""
    like = own.iloc[0]
    batch = runs.batch.where(runs.batch_per == "run", runs.batch * runs.workers)
    alike = ["dataset", "model", "kind", "epochs"]
    same = (runs[alike] == like[alike]).all(axis=1)
    return runs[same & (runs.method == baseline) & (runs.workers == 1) & (batch == batch[own.index[0]])]


class Convergence(StrEnum):
    """What tables say about the epochs to a target."""

    REFERENCE = "reference"  # these runs are the reference
    SUSPICIOUS = "suspicious"  # fewer epochs than the reference
    LATE = "late"  # more epochs
    PLAUSIBLE = "plausible"  # neither
    INCONCLUSIVE = "inconclusive"  # too few pairs: even if all agreed, they would show neither


def convergences(
    epochs: Mapping[str, pd.Series], reference: pd.Series, trained_epochs: float
) -> dict[str, Convergence]:
    """Compare the epochs to a target with those of the reference, in pairs of the same repetition.

    By a two-sided sign test, because a miss is infinite, and because epochs are as coarse as evaluations are
    rare: pairs with equal epochs say nothing. The tests of all methods are corrected by Holm's method.

    Args:
        epochs: for each method, those of each run until it reaches the target, with the repetition as index;
            a miss is infinite.
        reference: of the runs of the reference, likewise.
        trained_epochs: that a run of the reference has in all. If it misses what the method reaches, it
            counts as reached after these, so that it makes no method suspicious.
    """
    signs = {}
    for method, own in epochs.items():
        both = own.index.intersection(reference.index)
        ours, theirs = own[both], reference[both]
        theirs = theirs.where(np.isinf(ours), theirs.replace(np.inf, trained_epochs))
        signs[method] = (ours > theirs).astype(int) - (ours < theirs).astype(int)
    corrected = holm([_sign_test(sign) for sign in signs.values()])
    return {
        method: _convergence(sign.sum(), p, 2 * 0.5 ** len(sign) * len(signs))
        for (method, sign), p in zip(signs.items(), corrected)
    }


def _sign_test(signs: pd.Series) -> float:
    later, earlier = int((signs > 0).sum()), int((signs < 0).sum())
    return float(scipy.stats.binomtest(later, later + earlier).pvalue) if later + earlier else 1.0


def _convergence(balance: int, p: float, least_p: float) -> Convergence:
    """`least_p`: that of as many pairs which all agree."""
    if p < LEVEL:
        return Convergence.LATE if balance > 0 else Convergence.SUSPICIOUS
    return Convergence.PLAUSIBLE if least_p < LEVEL else Convergence.INCONCLUSIVE


# Profiles and scores end at the largest factor, as in AlgoPerf.
FACTORS = (1.0, 1.5, 2.0, 3.0, 4.0)
_WITHIN = {f"within_{factor:g}": factor for factor in FACTORS}
METRICS = {"payload_bytes": "payload_bytes_median", "train_seconds": "train_seconds_median"}
PROFILE_COLUMNS = ["kind", "metric", "target_of_baseline_percent", "method", "settings", *_WITHIN, "score"]


def profiles(to_target: pd.DataFrame) -> pd.DataFrame:
    """One row for each kind of run, metric, target and method, over the settings that have runs of it.

    Args:
        to_target: the table of that name.
    """
    # Targets stand in one order in every setting; as scores they differ.
    place = to_target.groupby([*SETTING, "kind", "method"], sort=False).cumcount()
    percent = place.map({i: 100 * share for i, share in enumerate(SHARES)})
    table = to_target.assign(percent=percent)
    parts = [
        _of_methods(here, column).assign(kind=kind, metric=metric, target_of_baseline_percent=percent)
        for kind, of_kind in table.groupby("kind", sort=False)
        for percent, here in of_kind.groupby("percent", sort=False)
        for metric, column in METRICS.items()
    ]
    if not parts:
        return pd.DataFrame(columns=PROFILE_COLUMNS)
    return report_files.with_table_digits(pd.concat(parts))[PROFILE_COLUMNS]


def _of_methods(table: pd.DataFrame, column: str) -> pd.DataFrame:
    """A row for each method that has a value in this column in a setting."""
    costs = table.pivot(index=SETTING, columns="method", values=column)[list(table.method.unique())]
    found = ratios(costs.dropna(how="all").dropna(axis=1, how="all"))
    # The share of settings in which the method is within a factor of the best.
    within = {name: (found <= f).astype(float).where(found.notna()).mean() for name, f in _WITHIN.items()}
    made = pd.DataFrame(within).assign(settings=found.count(), score=_score(found))
    return made.rename_axis("method").reset_index()


def ratios(costs: pd.DataFrame) -> pd.DataFrame:
    """Each cost over the smallest of its setting: 1 for the best, infinite for a miss.

    In a setting that every method misses, all ratios are infinite.

    Args:
        costs: one row for each setting and one column for each method, such as the bytes to a target. They
            are 0 or more; a miss is infinite. NaN: the method has no run there; its profile leaves the
            setting out.
    """
    best = costs.min(axis=1)
    of_best = costs.div(best.where(best > 0), axis=0).where(np.isfinite(costs), np.inf)
    return of_best.fillna(np.inf).mask(costs.eq(best, axis=0) & np.isfinite(costs), 1.0).where(costs.notna())


def _score(ratios: pd.DataFrame) -> pd.Series:
    """The mean of each method's profile between the factors 1 and 4; 1 for the best of every setting."""
    # The integral of a step that rises at the ratio.
    return ((FACTORS[-1] - ratios.clip(upper=FACTORS[-1])) / (FACTORS[-1] - 1)).mean()
