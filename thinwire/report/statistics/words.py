"""Verdicts on comparisons, each with its words. One branch gives both, so they cannot differ.

No other file says that something is better, worse, the same or faster.
"""

import math
from typing import NamedTuple

from thinwire.base.learning import Unit
from thinwire.report.report_files import fixed, table_digits
from thinwire.report.statistics.paired import FEWEST_PAIRS, LEVEL, POWER, Comparison, Judged, Verdict


class Decision(NamedTuple):
    """What tables say about a comparison."""

    verdict: Verdict
    words: str


class Answer(NamedTuple):
    """Whether runs show what a claim says."""

    shown: bool | None  # False: they show that it is not so; None: they show neither
    words: str
    no_effect: bool = False  # they show neither, but that any effect is below the margin


def on_score(judged: Judged, unit: Unit, chance: float = 0.0, at_chance: bool = False) -> Decision:
    """About the method's score beside the baseline's; positive differences favour the method.

    Args:
        judged: differences in scores.
        unit: of the scores.
        chance: the noise floor of tuning. No verdict rests on a smaller distance from what it excludes.
        at_chance: are the baseline's runs at chance level?
    """
    difference = judged.comparison
    if difference.n < FEWEST_PAIRS:
        return Decision(Verdict.INCONCLUSIVE, _inconclusive(_too_few(difference.n)))
    if at_chance:
        return Decision(Verdict.INCONCLUSIVE, _inconclusive("the baseline's runs are at chance level"))
    distance = abs(difference.mean) if judged.differs else difference.margin - abs(difference.mean)
    if (judged.differs or judged.within_margin) and _left_to_chance(distance, chance):
        return Decision(Verdict.INCONCLUSIVE, _inconclusive(_noise(chance, unit)))
    if judged.differs:
        words = _side(difference, unit)
        words += f", but {_within(difference, unit)}" if judged.within_margin else ""
        return Decision(Verdict.DIFFERENT, words)
    if judged.within_margin:
        return Decision(Verdict.NO_EFFECT, _within(difference, unit))
    found = _difference_found(difference.n, judged.detectable, unit)
    return Decision(Verdict.INCONCLUSIVE, _inconclusive(found))


def on_speed(judged: Judged) -> Decision:
    """About the method's time beside the baseline's.

    Args:
        judged: differences of the logarithms of seconds, the baseline's minus the method's.
    """
    difference = judged.comparison
    if difference.n < FEWEST_PAIRS:
        return Decision(Verdict.INCONCLUSIVE, _inconclusive(_too_few(difference.n)))
    if judged.differs:
        return Decision(Verdict.DIFFERENT, _times(difference))
    if judged.within_margin:
        return Decision(Verdict.NO_EFFECT, _within_factor(difference))
    return Decision(Verdict.INCONCLUSIVE, _inconclusive(_factor_found(difference.n, judged.detectable)))


def on_gain(difference: Comparison, unit: Unit, chance: float = 0.0) -> Answer:
    """Is the method's score better? (Two-sided paired t test, and TOST where it finds no difference.)

    Args:
        difference: in scores; positive if the method's is better.
        unit: of the scores.
        chance: as in `on_score`.
    """
    if difference.n < FEWEST_PAIRS:
        return Answer(None, _too_few(difference.n))
    size = abs(difference.mean)
    if difference.p_different < LEVEL and difference.mean > 0:
        return _beyond(chance, size, unit, Answer(True, _side(difference, unit)))
    if difference.high <= 0:
        if not size:
            return Answer(False, _within(difference, unit))
        return _beyond(chance, size, unit, Answer(False, _side(difference, unit)))
    if difference.p_same < LEVEL:
        answer = Answer(None, _within(difference, unit), no_effect=True)
        return _beyond(chance, difference.margin - size, unit, answer)
    return Answer(None, _difference_found(difference.n, difference.detectable(), unit))


def on_equality(difference: Comparison, unit: Unit, chance: float = 0.0) -> Answer:
    """Do the scores differ by less than the margin? (TOST.) The arguments are those of `on_gain`."""
    if difference.n < FEWEST_PAIRS:
        return Answer(None, _too_few(difference.n))
    distance = abs(difference.margin - abs(difference.mean))
    if difference.p_same < LEVEL:
        side = f"{_side(difference, unit)}, but " if difference.p_different < LEVEL else ""
        return _beyond(chance, distance, unit, Answer(True, side + _within(difference, unit)))
    if difference.high <= -difference.margin or difference.low >= difference.margin:
        return _beyond(chance, distance, unit, Answer(False, _side(difference, unit)))
    return Answer(None, f"the difference may be below or above {difference.margin:g} {unit.name}")


def on_loss(difference: Comparison, unit: Unit, chance: float = 0.0) -> Answer:
    """Does the method lose less than the margin? (One-sided test of non-inferiority; arguments as above.)"""
    if difference.n < FEWEST_PAIRS:
        return Answer(None, _too_few(difference.n))
    margin = f"{difference.margin:g} {unit.name}"
    distance = abs(difference.mean + difference.margin)
    if difference.p_not_inferior < LEVEL:
        return _beyond(chance, distance, unit, Answer(True, f"no loss of {margin} or more"))
    if difference.high <= -difference.margin:
        return _beyond(chance, distance, unit, Answer(False, f"a loss of {margin} or more"))
    return Answer(None, f"the loss may be below or above {margin}")


def on_reduction(difference: Comparison, percent: float) -> Answer:
    """Is the reduction of the seconds above `percent`? (The 95 % t interval, and TOST for any reduction.)

    Args:
        difference: of the logarithms of seconds, those compared with minus the method's.
        percent: of the seconds compared with, 0 or more.
    """
    if difference.n < FEWEST_PAIRS:
        return Answer(None, _too_few(difference.n))
    least = -math.log1p(-percent / 100) if percent < 100 else math.inf
    if difference.low > least:
        return Answer(True, _times(difference))
    if difference.high <= least:
        if percent:
            return Answer(False, f"the reduction is not above {percent:g} %")
        return Answer(False, _times(difference) if difference.mean else "the same time in every pair")
    if percent:
        return Answer(None, f"the reduction may be below or above {percent:g} %")
    if difference.p_same < LEVEL:
        return Answer(None, _within_factor(difference), no_effect=True)
    return Answer(None, _factor_found(difference.n, difference.detectable()))


def on_chance(chance: float, unit: Unit, baseline: str, again: str) -> str:
    """About the noise floor of tuning: how far the baseline and itself, tuned again, are apart."""
    return (
        f"Tuning leaves {_size(chance, unit)} to chance: the largest mean difference between {again} and "
        f"{baseline}, which are one method, tuned twice. No verdict rests on a smaller difference."
    )


def _left_to_chance(distance: float, chance: float) -> bool:
    return bool(chance) and distance <= chance


def _beyond(chance: float, distance: float, unit: Unit, answer: Answer) -> Answer:
    """The answer; neither, if it is no further than the noise floor from what it excludes."""
    return Answer(None, _noise(chance, unit)) if _left_to_chance(distance, chance) else answer


def _noise(chance: float, unit: Unit) -> str:
    return f"within what tuning leaves to chance: {_size(chance, unit)}"


def _side(difference: Comparison, unit: Unit) -> str:
    return f"{'better' if difference.mean > 0 else 'worse'} by {_size(abs(difference.mean), unit)}"


def _within(difference: Comparison, unit: Unit) -> str:
    if difference.sd or difference.mean:
        return f"no effect of {difference.margin:g} {unit.name} or more"
    return "equal in every pair"


def _times(logarithm: Comparison) -> str:
    times = table_digits(math.exp(abs(logarithm.mean)))
    size = fixed(times, 2) if times >= 1.005 else "less than 1.01"
    return f"{size} times {'faster' if logarithm.mean > 0 else 'slower'}"


def _within_factor(logarithm: Comparison) -> str:
    return f"no effect of {100 * math.expm1(logarithm.margin):.3g} % or more"


def _size(size: float, unit: Unit) -> str:
    size, least = table_digits(size), 10**-unit.digits
    return f"{fixed(size, unit.digits) if size >= least / 2 else f'less than {least:g}'} {unit.name}"


def _inconclusive(why: str) -> str:
    return f"inconclusive: {why}"


def _difference_found(pairs: int, detectable: float, unit: Unit) -> str:
    return _found(pairs, f"a difference of {_size(detectable, unit)}")


def _factor_found(pairs: int, detectable: float) -> str:
    return _found(pairs, f"a factor of {fixed(table_digits(math.exp(detectable)), 2)}")


def _found(pairs: int, size: str) -> str:
    return f"{pairs} pairs would find {size} with a probability of {100 * POWER:g} %"


def _too_few(pairs: int) -> str:
    have = f"{pairs} {'pair' if pairs == 1 else 'pairs'}"
    return f"{have}, and {FEWEST_PAIRS} are needed at least"
