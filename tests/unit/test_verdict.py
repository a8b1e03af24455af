"""Verdicts follow from corrected p-values, and words from verdicts: only verdict_words.py says them."""

import ast
import math
import re
from dataclasses import replace

import pandas as pd
import pytest

from thinwire.base.learning import CLASSIFICATION
from thinwire.plugins import ROOT
from thinwire.report import verdict_words as words
from thinwire.report.paired import MARGIN_OF_SPEED, Verdict, compare, holm, judge

NAN = math.nan
SPREAD = pd.Series([-0.05, 0.05, 0.0, -0.05, 0.05, 0.0])
NOTHING = "no effect of 0.3 points or more"


def of(differences, n=6, margin=0.3, resolution=0.01):
    """The comparison of runs with these differences."""
    differences = pd.Series(differences, dtype=float)[:n]
    return compare(90 + differences, differences * 0 + 90, margin, resolution)


def verdict_and_words(comparison):
    (judged,) = judge([comparison])
    return words.on_score(judged, CLASSIFICATION.unit)


def speed(comparison):
    (judged,) = judge([comparison])
    return words.on_speed(judged).words


def test_holm_by_hand():
    """Sorted: 0.01 x 3, 0.02 x 2, 0.5 x 1, none below one before it; a missing value does not count."""
    assert holm([0.02, NAN, 0.5, 0.01]) == pytest.approx([0.04, NAN, 0.5, 0.03], nan_ok=True)
    assert holm([0.04, 0.03, 0.035]) == pytest.approx([0.09] * 3)
    assert holm([]) == []


@pytest.mark.parametrize(
    ("differences", "verdict", "phrase"),
    [
        (1.5 + SPREAD, Verdict.DIFFERENT, "better by 1.50 points"),
        (-1.5 + 10 * SPREAD, Verdict.DIFFERENT, "worse by 1.50 points"),
        (SPREAD, Verdict.NO_EFFECT, NOTHING),
        (-0.1 + SPREAD, Verdict.DIFFERENT, f"worse by 0.10 points, but {NOTHING}"),
        (0 * SPREAD, Verdict.NO_EFFECT, "equal in every pair"),
        ([-10] * 5, Verdict.DIFFERENT, "worse by 10.00 points"),
        (
            [-0.004] * 10,
            Verdict.DIFFERENT,
            f"worse by less than 0.01 points, but {NOTHING}",
        ),
    ],
)
def test_a_verdict_and_its_words(differences, verdict, phrase):
    assert verdict_and_words(of(differences, n=10, resolution=0.001)) == (verdict, phrase)


def test_what_is_inconclusive_says_what_could_be_found():
    found = f"a difference of {of(20 * SPREAD).detectable():.2f} points with a probability of 80 %"
    phrase = f"inconclusive: 6 pairs would find {found}"
    assert verdict_and_words(of(20 * SPREAD)) == (Verdict.INCONCLUSIVE, phrase)


@pytest.mark.parametrize("n", [0, 1, 4])
def test_fewer_than_five_pairs_say_nothing_however_far_apart(n):
    comparison = of([30.0, 31.0, 30.5, 29.0, 30.0], n)
    verdict, phrase = verdict_and_words(comparison)
    assert verdict is Verdict.INCONCLUSIVE
    assert phrase.endswith(f"{n} pair{'s' * (n != 1)}, and 5 are needed at least")
    on_loss = words.on_loss(comparison, CLASSIFICATION.unit).words
    assert f"inconclusive: {on_loss}" == speed(comparison) == phrase
    assert verdict_and_words(of([30.0, 31.0, 30.5, 29.0, 30.0]))[0] is Verdict.DIFFERENT


def test_comparisons_are_judged_among_those_that_are_read_with_them():
    """A p-value of 0.03 is a verdict alone, and none among three; runs without pairs do not count."""
    alone = replace(of(20 * SPREAD), p_different=0.03)
    none = of([], 0)
    assert words.on_score(judge([alone, none, none])[0], CLASSIFICATION.unit).verdict is Verdict.DIFFERENT
    family = judge([alone, none, alone, alone])
    assert {words.on_score(each, CLASSIFICATION.unit).verdict for each in family} == {Verdict.INCONCLUSIVE}
    assert family[0].p_different_holm == pytest.approx(0.09)
    assert family[0].detectable == alone.detectable(3) > alone.detectable()


@pytest.mark.parametrize(
    ("differences", "no_loss", "phrase"),
    [
        (SPREAD, True, "no loss of 0.5 points or more"),
        (SPREAD - 0.5, None, "the loss may be below or above 0.5 points"),
        (SPREAD * 30, None, "the loss may be below or above 0.5 points"),
        (SPREAD - 1, False, "a loss of 0.5 points or more"),
    ],
)
def test_no_loss_is_said_only_if_a_test_says_so(differences, no_loss, phrase):
    found = words.on_loss(of(differences, margin=0.5), CLASSIFICATION.unit)
    assert found == words.Answer(no_loss, phrase)


def test_speed_is_said_as_a_factor():
    factor = math.log(2) + SPREAD
    assert speed(of(factor)) == "2.00 times faster"
    assert speed(of(-factor)) == "2.00 times slower"
    assert speed(of(0.001 + SPREAD / 1000)) == "less than 1.01 times faster"
    assert speed(of(20 * SPREAD)).startswith("inconclusive: 6 pairs would find a factor of")
    assert speed(of(SPREAD / 10, margin=MARGIN_OF_SPEED)) == "no effect of 5 % or more"


WORDS = re.compile(r"\b(better|worse|the same|no effect|no loss|faster)\b", re.IGNORECASE)
# Texts that define a term and say nothing of a result: the words around it, and why it may stand there.
ALLOWED = {
    "report/claim_verdict.py": ("no effect",),  # names a verdict
    "figures/comparisons.py": ("square: no effect of",),  # is a legend of verdicts
    "rows/times.py": (
        "over the faster of the baselines",  # defines the speed-up
        "in the same place",  # says where the baseline is
    ),
    "report/track_scores.py": (
        "Better: ln(score of the best SSGD",  # defines the mark, by the rule of the track
        "better than",  # names the column
    ),
    "report/regimes.py": ("faster",),  # is what publications say
    "figures/speed_ups.py": (
        "speed-up over the better of",  # names the axis
        "over those of the better of",  # names the axis
        "bold: faster",  # is a legend of simulated ratios, which have no test
        "at which a method is faster",  # is a legend of simulated ratios, which have no test
    ),
}
FILES = sorted((ROOT / "thinwire/report").rglob("*.py"))


def name_of(path):
    return f"{path.parent.name}/{path.name}"


def texts(path):
    """The string literals of a file that may reach a reader: all but its docstrings."""
    tree = ast.parse(path.read_text())
    defined = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, defined) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.value


def claims(path):
    """The texts of a file with one of the words, without what is allowed there."""
    for text in texts(path):
        for each in ALLOWED.get(name_of(path), ()):
            text = text.replace(each, "")
        if WORDS.search(text):
            yield text


@pytest.mark.parametrize("path", FILES, ids=name_of)
def test_nobody_else_claims_anything(path):
    if path.name != "verdict_words.py":
        assert not list(claims(path)), "take the words from thinwire/report/verdict_words.py"


def test_what_is_allowed_and_all_words_are_found_where_they_come_from():
    files = {name_of(path): " ".join(texts(path)) for path in FILES}
    for name, allowed in ALLOWED.items():
        for each in allowed:
            assert each in files[name], f"{name} no longer says {each!r}: remove it here"
    found = WORDS.findall(" ".join(texts(ROOT / "thinwire/report/verdict_words.py")))
    assert set(found) == {"better", "worse", "the same", "no effect", "no loss", "faster"}
