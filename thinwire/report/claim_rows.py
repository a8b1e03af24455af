"""The claims of a suite, beside what its runs show."""

import math
from collections.abc import Iterator, Mapping

import pandas as pd

from thinwire import plugins
from thinwire.config.claims import SCORES, SECONDS, Claim, Metric
from thinwire.config.entries import entries_of, heirs, tuned_again
from thinwire.config.suite_schema import Suite
from thinwire.report.claim_verdict import (
    Outcome,
    Verdict,
    fields,
    of_pairs,
    over_variants,
    rounded,
    says,
    simulated,
)
from thinwire.report.report_files import fixed
from thinwire.report.rows.collect import task_of_runs
from thinwire.report.rows.comparisons import noise_floor, resolution
from thinwire.report.rows.quantities import BLOCK, TARGET_OF_BASELINE, reaching, untrained

# What all runs have in common that are compared with each other.
PLACE = [*BLOCK, "cluster"]
_PREPARATION = ["preparation_payload_push_bytes", "preparation_payload_pull_bytes"]
# The columns of summary.csv whose sum is the metric; a missing preparation counts as 0.
_SUMS = {
    **{metric: ["score"] for metric in SCORES},
    "push": ["payload_push_bytes"],
    "pull": ["payload_pull_bytes"],
    "payload": ["payload_push_bytes", "payload_pull_bytes"],
    "payload_with_preparation": ["payload_push_bytes", "payload_pull_bytes", *_PREPARATION],
    "wire": ["wire_sent_bytes"],
    "between_nodes": ["between_nodes_bytes"],
}


def metric_values(metric: Metric, runs: pd.DataFrame, curves: pd.DataFrame, baseline: str) -> pd.Series:
    """The metric of each run that is done; the others have NaN, as do runs without times for seconds.

    A score, bytes, or seconds. A run that never reaches the target takes infinitely long.

    Args:
        metric: of the claim.
        runs: one row for each run, as collected; `cluster` is "" where there is none.
        curves: one row for each evaluation of these runs; only seconds to the target need them.
        baseline: label of the method whose score sets the target.
    """
    if metric == "seconds_of_a_step":
        timed = "train_seconds" in runs
        values = runs.train_seconds / runs.steps if timed else pd.Series(math.nan, runs.index)
    elif metric == "seconds_to_target":
        values = _seconds_to_target(runs, curves, baseline)
    else:
        parts = runs[_SUMS[metric]].assign(**runs[_PREPARATION].fillna(0)).loc[:, _SUMS[metric]]
        values = parts.sum(axis=1, skipna=False)
    return values.where(runs.status == "done")


def _seconds_to_target(runs: pd.DataFrame, curves: pd.DataFrame, baseline: str) -> pd.Series:
    """The training seconds until the first evaluation that reaches the target.

    It follows from the mean score of the baseline at the end, in the same cell.
    """
    if "train_seconds" not in runs or "train_seconds" not in curves:
        return pd.Series(math.nan, runs.index)
    of_baseline = runs[(runs.method == baseline) & (runs.status == "done")]
    task = task_of_runs(runs)
    means = of_baseline.groupby(PLACE).score.mean()
    targets = means.map(lambda mean: task.target(mean, TARGET_OF_BASELINE))
    names = ["dataset", "model", "method", "workers", "nodes", "kind", "repetition"]
    evaluations = dict(iter(curves.groupby(names)))
    found = []
    for run in runs.to_dict("records"):
        target = targets.get(tuple(run[name] for name in PLACE), math.nan)
        curve = evaluations.get(tuple(run[name] for name in names))
        if curve is None or math.isnan(target) or math.isnan(run["train_seconds"]):
            found.append(math.nan)
        else:
            found.append(float(min(reaching(curve, target, task).train_seconds, default=math.inf)))
    return pd.Series(found, runs.index)


def is_reconstructed(use: str) -> bool:
    """Does the docstring of this module in methods/ say so? This does not run its code."""
    return "reconstructed" in plugins.get("method", use).docstring.lower()


Row = dict[str, object]
NO_RUNS = "no runs yet"
_NOWHERE = dict.fromkeys(PLACE, "")


def rows_without_runs(name: str, suite: Suite) -> Iterator[Row]:
    """A row for each claim of a suite that has not been run."""
    cost = f"; `thinwire cells {name} --cost a100` predicts their GPU hours" if suite.device == "cuda" else ""
    nothing = Outcome(Verdict.INCONCLUSIVE, f"{NO_RUNS}{cost}")
    yield from (_row(name, suite, claim, claim.against, nothing, _NOWHERE) for claim in suite.claim)


def rows_of(
    name: str, suite: Suite, runs: pd.DataFrame, curves: pd.DataFrame, simulated_times: pd.DataFrame | None
) -> Iterator[Row]:
    """A row for each claim and cell.

    Args:
        name: of the suite.
        suite: its settings.
        runs: one row for each of its runs.
        curves: one row for each of their evaluations.
        simulated_times: the rows of `thinwire simulate`, if there are any.
    """
    runs = runs.assign(cluster=runs.cluster.fillna(""))
    floor = noise_floor(runs, suite.baseline, tuned_again(suite), task_of_runs(runs))
    for claim in suite.claim:
        found = [*_of_runs(name, suite, claim, runs, curves, floor)]
        if claim.metric in SECONDS and simulated_times is not None:
            found += _of_simulation(name, suite, claim, simulated_times)
        nothing = Outcome(Verdict.INCONCLUSIVE, "no runs of these methods yet")
        yield from found or [_row(name, suite, claim, claim.against, nothing, _NOWHERE)]


def _of_runs(
    name: str, suite: Suite, claim: Claim, runs: pd.DataFrame, curves: pd.DataFrame, floor: float
) -> Iterator[Row]:
    runs = runs[runs.method.isin([claim.method, *claim.variants, *claim.against])]
    runs = runs[runs.model.isin(claim.models or runs.model)]
    runs = runs.assign(value=metric_values(claim.metric, runs, curves, suite.baseline))
    if claim.at_equal is not None:
        runs = runs.assign(equal=metric_values(claim.at_equal.metric, runs, curves, suite.baseline))
    for where, group in runs.groupby(PLACE, sort=False):
        place = dict(zip(PLACE, where))
        if claim.method in set(group.method):
            against, outcome = _outcome(claim, group, suite, floor)
            variants = {
                label: _outcome(claim.model_copy(update={"method": label}), group, suite, floor)[1]
                for label in claim.variants
            }
            outcome = rounded(over_variants(claim.method, outcome, variants))
            yield _row(name, suite, claim, against, outcome, place)


def _outcome(claim: Claim, runs: pd.DataFrame, suite: Suite, floor: float) -> tuple[list[str], Outcome]:
    """With what the method is compared in this place, and the verdict; `floor`: the noise floor of tuning."""
    ours = runs[runs.method == claim.method]
    if len(ours) and (ours.status == "skipped").all():
        why = f"{claim.method} was skipped: {ours.reason.iloc[0]}"
        return claim.against, Outcome(Verdict.NOT_TESTABLE, why)
    if claim.metric in SECONDS and runs.value.isna().all():
        return claim.against, Outcome(Verdict.NOT_TESTABLE, "no run has measured or emulated times")
    known = runs[runs.value.notna()]
    means = known[known.method.isin(claim.against)].groupby("method", sort=False).value.mean()
    if means.empty or not len(known[known.method == claim.method]):
        return claim.against, Outcome(Verdict.INCONCLUSIVE, "no pair of runs is done")
    more_is_better = claim.metric in SCORES and SCORES[claim.metric].higher_is_better
    best = str(means.idxmax() if more_is_better else means.idxmin())
    outcome = _against(best, claim, runs, suite, floor)
    if outcome.verdict is not Verdict.HELD:
        return [best], outcome
    # The runs that test the claim have also chosen the best, so it has to be held against each of them.
    for other in means.index.drop(best):
        beside = _against(other, claim, runs, suite, floor)
        if beside.verdict not in (Verdict.HELD, Verdict.NOT_TESTABLE):
            why = f"{beside.verdict} against {other}: {beside.reason}"
            return [best], outcome._replace(verdict=Verdict.INCONCLUSIVE, reason=why)
    return [best], outcome


def _against(other: str, claim: Claim, runs: pd.DataFrame, suite: Suite, floor: float) -> Outcome:
    """The verdict in this place if the claim is about this one other method."""
    known = runs[runs.value.notna()]
    ours, theirs = (known[known.method == m].set_index("repetition").value for m in (claim.method, other))
    pairs = pd.concat([ours, theirs], axis=1, join="inner")
    if pairs.empty:
        return Outcome(Verdict.INCONCLUSIVE, "no pair of runs is done")
    task = task_of_runs(known)
    # Whose scores decide: the baseline's set the target, which guessing reaches if they are no better.
    scored = {**dict.fromkeys(SCORES, other), "seconds_to_target": suite.baseline}.get(claim.metric)
    if scored is not None and untrained(runs, scored, task):
        return Outcome(Verdict.INCONCLUSIVE, f"the runs of {scored} are at chance level")
    if unequal := _why_not_equal(claim, known, other):
        return Outcome(Verdict.NOT_TESTABLE, unequal)
    # Chance in tuning changes no difference of methods that have one tuning.
    tuned_as = heirs(entries_of(suite)) if floor else {}
    if tuned_as.get(claim.method, claim.method) == tuned_as.get(other, other):
        floor = 0.0
    outcome = of_pairs(claim, pairs.iloc[:, 0], pairs.iloc[:, 1], resolution(known, task), floor)
    if outcome.n < suite.repetitions and claim.statistic != "exact_bytes":
        # The number was chosen before the runs. If some are missing, the others are a biased selection.
        lost = runs[runs.method.isin([claim.method, other]) & runs.value.isna()]
        states = lost[["method", "status"]].drop_duplicates().to_numpy()
        which = "".join(f"; {m}: {'without times' if s == 'done' else s}" for m, s in states)
        why = f"{outcome.n} of the suite's {suite.repetitions} pairs are complete{which}"
        outcome = outcome._replace(verdict=Verdict.INCONCLUSIVE, reason=why)
    if suite.device == "cpu" and claim.scope == "number" and outcome.low != outcome.high:
        why = "on CPUs a number must follow from shapes, and these bytes differ between repetitions"
        outcome = outcome._replace(verdict=Verdict.INCONCLUSIVE, reason=why)
    return outcome


def _why_not_equal(claim: Claim, runs: pd.DataFrame, against: str) -> str | None:
    """Why these runs do not have equal bytes, or None if they need not or do."""
    if claim.at_equal is None:
        return None
    means = runs.groupby("method").equal.mean()
    metric, most = claim.at_equal.metric.replace("_", " "), claim.at_equal.within_percent
    ours, theirs = float(means[claim.method]), float(means[against])
    if abs(ours - theirs) <= most / 100 * theirs:
        return None
    if theirs == 0:
        return f"{metric} is {ours:g} bytes, and {against} has none"
    return f"{metric} differs by {fixed(100 * abs(ours / theirs - 1), 1)} % and not at most by {most:g} %"


def _of_simulation(name: str, suite: Suite, claim: Claim, times: pd.DataFrame) -> Iterator[Row]:
    """Simulated times give an estimate for a step, and no verdict."""
    times = times[times.own_rate & times.model.isin(claim.models or times.model)]
    for where, group in times.groupby(PLACE, sort=False):
        seconds = group.set_index("method").step_seconds
        others = seconds[seconds.index.isin(claim.against)]
        if claim.metric != "seconds_of_a_step" or claim.method not in seconds or others.empty:
            continue
        place = dict(zip(PLACE, where))
        estimate = 100 * (1 - float(seconds[claim.method]) / float(others.min()))
        outcome = rounded(Outcome(Verdict.NOT_TESTABLE, "a simulation decides no claim", 0, estimate))
        against = str(others.idxmin())
        row = _row(name, suite, claim, [against], outcome, place)
        said = simulated(claim, fields(claim, against, outcome, place), outcome.estimate)
        yield row | {"says": said}


def _row(
    name: str, suite: Suite, claim: Claim, against: list[str], outcome: Outcome, place: Mapping[str, object]
) -> Row:
    entry = entries_of(suite)[claim.method]
    reconstructed = is_reconstructed(entry.use or claim.method)
    named = fields(claim, ", ".join(against), outcome, place)
    low, high = claim.expected or (math.nan, math.nan)
    return {
        "id": claim.id,
        "suite": name,
        "publication": claim.publication,
        "claim": claim.claim,
        "method": claim.method,
        "reconstructed": reconstructed,
        "post_hoc": claim.post_hoc,
        "against": named["against"],
        "metric": claim.metric,
        "direction": claim.direction,
        "margin": claim.margin.value if claim.margin else math.nan,
        "statistic": claim.statistic,
        "scope": claim.scope,
        **place,
        **outcome._asdict(),
        "unit": claim.unit,
        "expected_low": low,
        "expected_high": high,
        "verdict": str(outcome.verdict),
        "says": says(claim, outcome, named, reconstructed),
    }
