"""The verdict on a claim, and its sentence."""

import math
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import NamedTuple

import numpy as np
import pandas as pd

from thinwire.base.errors import UserError
from thinwire.base.learning import Unit
from thinwire.config.claims import FIELDS, SCORES, Claim, Untested
from thinwire.plugins import show
from thinwire.report import verdict_words as words
from thinwire.report.paired import (
    FEWEST_PAIRS,
    MARGIN_OF_SPEED,
    MOST_PAIRS,
    Comparison,
    compare,
    pairs_needed,
)
from thinwire.report.report_files import fixed, table_digits


class Verdict(StrEnum):
    """What the table of claims says."""

    HELD = "held"  # the evidence shows it
    CONTRADICTED = "contradicted"  # the evidence shows that it does not hold
    NO_EFFECT = "no effect"  # it may hold or not, but any effect is below the margin
    DEPENDS = "depends on the reconstruction"  # variants of the method have different verdicts
    INCONCLUSIVE = "inconclusive"  # no evidence yet, or too little
    NOT_TESTABLE = "not testable here"  # no run of this suite could show it


_OF_ANSWER = {True: Verdict.HELD, False: Verdict.CONTRADICTED, None: Verdict.INCONCLUSIVE}


def _verdict(answer: words.Answer) -> Verdict:
    return Verdict.NO_EFFECT if answer.no_effect else _OF_ANSWER[answer.shown]


class Outcome(NamedTuple):
    """A verdict, and what it rests on. The estimate has the unit of the claim; NaN: there is none."""

    verdict: Verdict
    reason: str
    n: int = 0
    estimate: float = math.nan
    low: float = math.nan
    high: float = math.nan


def of_pairs(
    claim: Claim, ours: pd.Series, theirs: pd.Series, resolution: float = 0.0, floor: float = 0.0
) -> Outcome:
    """The verdict on a claim.

    The estimate is a difference of scores (positive if ours is better), or in percent of theirs if the
    margin has this unit. It is a reduction in percent for bytes and seconds (0: as many, 100: none,
    negative: more). The interval holds all pairs for bytes, which are counted; for the others it is the
    95 % t interval.

    Args:
        claim: what is tested.
        ours: the metric of the method, with the repetition as index; none is missing.
        theirs: that of the method it is compared with, for the same repetitions.
        resolution: from one possible score to the next, in its unit.
        floor: the noise floor of tuning, in the same unit.
    """
    if claim.statistic == "exact_bytes":
        return _of_bytes(claim, ours, theirs)
    if claim.statistic == "ratio":
        return _of_seconds(claim, ours, theirs)
    return _of_scores(claim, ours, theirs, resolution, floor)


def over_variants(method: str, own: Outcome, variants: Mapping[str, Outcome]) -> Outcome:
    """The verdict on a reconstructed method: it is held, or contradicted, only if it is so for all variants.

    These have other choices of what was reconstructed; their outcomes are by label.
    """
    labels = {own.verdict: [method]}
    for label, outcome in variants.items():
        labels.setdefault(outcome.verdict, []).append(label)
    if own.verdict not in (Verdict.HELD, Verdict.CONTRADICTED) or len(labels) == 1:
        return own
    opposed = Verdict.HELD in labels and Verdict.CONTRADICTED in labels
    verdict = Verdict.DEPENDS if opposed else Verdict.INCONCLUSIVE
    reason = "; ".join(f"{each} for {', '.join(those)}" for each, those in labels.items())
    return own._replace(verdict=verdict, reason=reason)


def _of_bytes(claim: Claim, ours: pd.Series, theirs: pd.Series) -> Outcome:
    if (theirs == 0).any():
        return Outcome(Verdict.NOT_TESTABLE, "the method compared with sends nothing there", len(theirs))
    saved = 100 * (theirs - ours) / theirs
    low, high, margin = float(saved.min()), float(saved.max()), _margin(claim)
    counted = "counted, and equal in every repetition" if low == high else "counted"
    if low > margin:
        verdict, reason = Verdict.HELD, counted
    elif high <= margin:
        verdict, reason = Verdict.CONTRADICTED, counted
    else:
        verdict, reason = Verdict.INCONCLUSIVE, "it holds in some repetitions and not in others"
    return Outcome(verdict, reason, len(saved), float(saved.mean()), low, high)


def _of_scores(claim: Claim, ours: pd.Series, theirs: pd.Series, resolution: float, floor: float) -> Outcome:
    task = SCORES[claim.metric]
    unit = task.unit
    if claim.unit == "percent":
        if (theirs == 0).any():
            return Outcome(Verdict.NOT_TESTABLE, f"the {task.score} compared with is 0 there", len(theirs))
        unit = Unit("%", 2)
        resolution, floor = 100 * resolution / theirs.min(), 100 * floor / theirs.min()
        ours, theirs = 100 * ours / theirs, 100 * theirs / theirs
    # A test for a difference has no margin of its own: what is no effect is decided as in other tables.
    margin = claim.margin.value if claim.margin else task.margin
    made = compare(task.sign * ours, task.sign * theirs, margin, resolution, floor)
    on = {"more": words.on_gain, "same": words.on_equality}.get(claim.direction, words.on_loss)
    verdict, reason = _decided(made, lambda pairs: on(pairs, unit))
    return Outcome(verdict, reason, made.n, made.mean, made.low, made.high)


def _of_seconds(claim: Claim, ours: pd.Series, theirs: pd.Series) -> Outcome:
    if missed := int(np.isinf(ours).sum() + np.isinf(theirs).sum()):
        runs = "1 run misses" if missed == 1 else f"{missed} runs miss"
        return Outcome(Verdict.INCONCLUSIVE, f"{runs} the target", len(ours))
    # The logarithm of the ratio of seconds: those of the other method over ours.
    made = compare(np.log(theirs), np.log(ours), MARGIN_OF_SPEED)
    verdict, reason = _decided(made, lambda pairs: words.on_reduction(pairs, _margin(claim)))
    estimate, low, high = (100 * (1 - math.exp(-value)) for value in (made.mean, made.low, made.high))
    reason = f"by the seconds of {made.n} pairs: {reason}"
    return Outcome(verdict, reason, made.n, estimate, low, high)


def _decided(made: Comparison, decide: Callable[[Comparison], words.Answer]) -> tuple[Verdict, str]:
    """The verdict and its reason, which says how many pairs would decide if these do not."""
    answer = decide(made)
    verdict = _verdict(answer)
    if verdict is not Verdict.INCONCLUSIVE or made.n < FEWEST_PAIRS or not made.sd or math.isinf(made.floor):
        return verdict, answer.words
    needed = pairs_needed(made, lambda pairs: _verdict(decide(pairs)) is not Verdict.INCONCLUSIVE)
    how_many = f"{needed:,}" if needed else f"more than {MOST_PAIRS:,}"
    return verdict, f"{answer.words}; with this mean and spread, {how_many} pairs would be needed"


def rounded(outcome: Outcome) -> Outcome:
    """The outcome with the numbers that tables give."""
    return outcome._replace(
        estimate=table_digits(outcome.estimate),
        low=table_digits(outcome.low),
        high=table_digits(outcome.high),
    )


def _margin(claim: Claim) -> float:
    return claim.margin.value if claim.margin else 0.0


def benchmark_sentence(claim: Untested) -> str | None:
    """What a benchmark has printed about a claim, and on which machine; None if there is no record.

    Raises:
        UserError: the newest record has no line that begins as the claim says.
    """
    record = claim.printed.newest_record() if claim.printed else None
    if claim.printed is None or record is None:
        return None
    lines = record.read_text().splitlines()
    found = [line for line in lines if line.startswith(claim.printed.lines)]
    if not found:
        raise UserError(f"{show(record)} has no line that begins with {claim.printed.lines!r}")
    (machine,) = [line.removeprefix("# machine: ") for line in lines if line.startswith("# machine: ")]
    return f"`python benchmarks/{claim.printed.benchmark}.py` printed on {machine}: {'; '.join(found)}."


def fields(claim: Claim, against: str, outcome: Outcome, place: Mapping[str, object]) -> dict[str, str]:
    """What the templates of a claim may name."""
    numbers = {"estimate": outcome.estimate, "low": outcome.low, "high": outcome.high}
    values = {
        "method": claim.method,
        "against": against,
        "unit": claim.unit,
        "margin": f"{claim.margin.value:g}" if claim.margin else "",
        "n": outcome.n,
        **{name: fixed(value, 2) for name, value in numbers.items()},
        **place,
    }
    return {name: str(values[name]) for name in FIELDS}


_DECIDED = {
    Verdict.CONTRADICTED: "contradicted",
    Verdict.NO_EFFECT: "neither held nor contradicted",
    Verdict.DEPENDS: "held or contradicted, which depends on the reconstruction",
}


def says(claim: Claim, outcome: Outcome, named: dict[str, str], reconstructed: bool) -> str:
    """The sentence for a verdict, with the place where it was found; `named` has the values of `fields`."""
    if outcome.verdict is Verdict.NOT_TESTABLE:
        return _sentence(f"Not testable here: {outcome.reason}")
    if outcome.verdict is Verdict.HELD:
        said = claim.may_say.format(**named)
    elif math.isnan(outcome.estimate):
        return _sentence(f"It is not decided yet whether this holds: {claim.claim} Reason: {outcome.reason}")
    else:
        verdict = _DECIDED.get(outcome.verdict, "not decided")
        said = _sentence(
            f'"{claim.claim}" is {verdict}. The estimate of `{named["method"]}` against `{named["against"]}` '
            f"is {estimate(outcome, claim.unit)}. {_as_sentences(outcome.reason)}"
        )
    own = f" `{claim.method}` is reconstructed." if reconstructed else ""
    own += " The claim was set when these runs were known." if claim.post_hoc else ""
    return f"{_where(named)}: {said}{own}"


def simulated(claim: Claim, named: dict[str, str], estimate: float) -> str:
    """What a simulation may say: its own numbers, and no verdict."""
    change = f"{fixed(abs(estimate), 1)} % {'fewer' if estimate >= 0 else 'more'} seconds a step"
    where = _where(named)
    return f"Our simulation gives {change} for `{claim.method}` than for `{named['against']}` ({where})."


def estimate(outcome: Outcome, unit: str) -> str:
    """The estimate, with its interval unless that is a single number."""
    interval = f" ({fixed(outcome.low, 2)} to {fixed(outcome.high, 2)})" if outcome.low < outcome.high else ""
    return f"{fixed(outcome.estimate, 2)}{interval} {'%' if unit == 'percent' else unit}"


def _where(named: dict[str, str]) -> str:
    nodes = f" on {named['nodes']} nodes" if named["nodes"] not in ("", "1") else ""
    cluster = f", {named['kind']} on {named['cluster']}" if named["cluster"] else ""
    return f"{named['dataset']}, {named['model']}, {named['workers']} workers{nodes}{cluster}"


def _as_sentences(reason: str) -> str:
    """The clauses of a reason as sentences, because together they are too long for one."""
    return ". ".join(clause[0].upper() + clause[1:] for clause in reason.split("; "))


def _sentence(text: str) -> str:
    return text if text.endswith(".") else f"{text}."
