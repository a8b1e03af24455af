"""Verdicts on comparisons, each with its words. One branch gives both, so they cannot differ.

No other file says that something is better, worse, the same or faster.
"""

import math
from typing import NamedTuple

from thinwire.base.learning import Unit
from thinwire.report.paired import FEWEST_PAIRS, LEVEL, POWER, Comparison, Judged, Verdict
from thinwire.report.report_files import fixed, table_digits


class Decision(NamedTuple):
    """What tables say about a comparison."""

    verdict: Verdict
    words: str


class Answer(NamedTuple):
    """Whether runs show what a claim says."""

    shown: bool | None  # False: they show that it is not so; None: they show neither
    words: str
    no_effect: bool = False  # they show neither, but that any effect is below the margin


def on_score(judged: Judged, unit: Unit, at_chance: bool = False, lost: int = 0) -> Decision:
    """About the method's score beside the baseline's; positive differences favour the method.

    Args:
        judged: differences in scores.
        unit: of the scores.
        at_chance: are the baseline's runs at chance level?
        lost: pairs of which a run diverged or failed. What is left is a selection, so it says nothing.
    """
    difference = judged.comparison
    if (why := _nothing_known(difference)) is not None:
        return Decision(Verdict.INCONCLUSIVE, _inconclusive(why))
    if at_chance:
        return Decision(Verdict.INCONCLUSIVE, _inconclusive("the baseline's runs are at chance level"))
    if lost:
        which = f"{lost} of {difference.n + lost} pairs have a run that diverged or failed"
        return Decision(Verdict.INCONCLUSIVE, _inconclusive(which))
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


def on_gain(difference: Comparison, unit: Unit) -> Answer:
    """Is the method's score better? (Two-sided paired t test, and TOST where it finds no difference.)

    Args:
        difference: in scores; positive if the method's is better.
        unit: of the scores.
    """
    if (why := _nothing_known(difference)) is not None:
        return Answer(None, why)
    if difference.p_different < LEVEL and difference.mean > 0:
        return Answer(True, _side(difference, unit))
    if difference.sd == difference.mean == 0:
        return Answer(False, _within(difference, unit))
    if difference.high <= -difference.floor:
        return Answer(False, _side(difference, unit))
    if difference.p_same < LEVEL:
        return Answer(None, _within(difference, unit), no_effect=True)
    return Answer(None, _difference_found(difference.n, difference.detectable(), unit))


def on_equality(difference: Comparison, unit: Unit) -> Answer:
    """Do the scores differ by less than the margin? (TOST.) The arguments are those of `on_gain`."""
    if (why := _nothing_known(difference)) is not None:
        return Answer(None, why)
    if difference.p_same < LEVEL:
        side = f"{_side(difference, unit)}, but " if difference.p_different < LEVEL else ""
        return Answer(True, side + _within(difference, unit))
    least = difference.margin + difference.floor
    if difference.high <= -least or difference.low >= least:
        return Answer(False, _side(difference, unit))
    return Answer(None, f"the difference may be below or above {difference.margin:g} {unit.name}")


def on_loss(difference: Comparison, unit: Unit) -> Answer:
    """Does the method lose less than the margin? (One-sided test of non-inferiority; arguments as above.)"""
    if (why := _nothing_known(difference)) is not None:
        return Answer(None, why)
    margin = f"{difference.margin:g} {unit.name}"
    if difference.p_not_inferior < LEVEL:
        return Answer(True, f"no loss of {margin} or more")
    if difference.high <= -difference.margin - difference.floor:
        return Answer(False, f"a loss of {margin} or more")
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


def on_noise(floor: float, unit: Unit, baseline: str, again: str | None) -> str:
    """About the noise floor of tuning: how far the baseline and itself, tuned again, are apart."""
    if again is None:
        return f"The noise floor of tuning was not measured, because {baseline} was not tuned twice."
    if math.isinf(floor):
        return f"The noise floor of tuning is not known, because no pair of {again} and {baseline} is done."
    return (
        f"Noise floor of tuning: {_size(floor, unit)}, the largest mean difference between {again} and "
        f"{baseline}, which are one method, tuned twice. All tests ask for a distance beyond it."
    )


def _nothing_known(difference: Comparison) -> str | None:
    """Why nothing can be said of a difference in scores, or None."""
    if difference.n < FEWEST_PAIRS:
        return _too_few(difference.n)
    return "the noise floor of tuning is not known" if math.isinf(difference.floor) else None


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
