"""comparisons.csv: pairs of the same repetition, judged among the methods of one cell and kind."""

import re

import numpy as np
import pandas as pd
import pytest

from thinwire.publish.paper.values import text_of
from thinwire.report.rows.comparisons import comparisons, write

SPREAD = (0.1, -0.1, 0.05, -0.05, 0.0, 0.1)


def runs(method, accuracies, status="done", **more):
    place = {"dataset": "digits", "model": "cnn", "workers": 4, "nodes": 1, "kind": "inprocess"}
    about = {**place, "method": method, "status": status, "evaluated_images": 1000, **more}
    return [{**about, "repetition": r, "test_accuracy_percent": a} for r, a in enumerate(accuracies)]


def table_of(*groups):
    return comparisons(pd.DataFrame([run for group in groups for run in group]), "ssgd")


def around(accuracy, spread=SPREAD):
    return [accuracy + each for each in spread]


def test_each_method_is_compared_with_the_baseline_of_its_cell_and_kind():
    table = table_of(
        runs("thin", around(91)),
        runs("ssgd", [90.0] * 6),
        runs("ssgd", [80.0] * 6, workers=8),
        runs("thin", around(80), workers=8),
        runs("thin", around(70), kind="measured"),
    )
    assert list(table.method) == ["thin"] * 3
    assert list(table.against) == ["ssgd"] * 3
    assert list(table.n) == [6, 6, 0]
    assert list(table.difference_mean_points[:2]) == pytest.approx([1.0167, 0.0167], abs=1e-4)
    assert list(table.verdict) == ["different", "same", "cannot_be_told"]
    assert list(table.words[:2]) == ["better by 1.02 points", "the same within 0.3 points"]


def test_runs_that_are_not_done_are_in_no_pair_and_methods_that_are_skipped_in_no_row():
    diverged = [a | {"status": "diverged"} for a in runs("thin", around(10))[:2]] + runs("thin", around(90))[
        2:
    ]
    table = table_of(
        runs("ssgd", [90.0] * 6), diverged, runs("never", [None] * 6, status="skipped"), runs("few", [90.0])
    )
    assert list(table.method) == ["thin", "few"]
    assert list(table.n) == [4, 1]
    assert list(table.words) == [
        "cannot be told: 4 pairs, and 5 are needed at least",
        "cannot be told: 1 pair, and 5 are needed at least",
    ]


def test_more_methods_in_a_table_need_more_evidence():
    """A difference of 0.12 +- 0.09 points over 6 pairs has p = 0.02: enough for one method, not for four."""
    methods = [runs(name, around(90.1)) for name in "abcd"]
    alone = table_of(runs("ssgd", [90.0] * 6), methods[0])
    among = table_of(runs("ssgd", [90.0] * 6), *methods)
    assert alone.p_different[0] == pytest.approx(among.p_different[0])
    assert among.p_different_holm[0] == pytest.approx(4 * alone.p_different_holm[0])
    assert alone.p_different_holm[0] < 0.05 < among.p_different_holm[0]
    assert alone.words[0] == "better by 0.12 points, but the same within 0.3 points"
    assert among.words[0] == "the same within 0.3 points"


def test_words_and_the_file_round_a_tie_alike(tmp_path):
    """In tenths of points, half of all means of ten differences are ties at two digits."""
    random = np.random.default_rng(1)
    theirs = 100 - np.round(random.uniform(1, 30, 10), 2)
    ours = [theirs - 1.005 + np.round(random.permutation(np.repeat([-0.03, 0.03], 5)), 2) for _ in range(20)]
    table = table_of(runs("ssgd", theirs), *(runs(f"m{i}", values) for i, values in enumerate(ours)))
    write(table, tmp_path)
    read = pd.read_csv(tmp_path / "comparisons.csv")
    assert list(read.difference_mean_points) == list(table.difference_mean_points)
    in_words = [re.search(r"[\d.]+", said)[0] for said in read.words]
    assert in_words == [text_of(abs(mean), 2) for mean in read.difference_mean_points]
