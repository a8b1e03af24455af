"""Comparisons of accuracy, of time, and of what targets cost, among the methods of one cell and kind."""

import math
import re

import numpy as np
import pandas as pd
import pytest

from tests.frames import CELL
from thinwire.base.learning import CLASSIFICATION
from thinwire.publish.paper.values import text_of
from thinwire.report import verdict_words as words
from thinwire.report.report_files import write_table
from thinwire.report.rows.comparisons import SPEED_UP_COLUMNS, comparisons, noise_floor, speed_ups
from thinwire.report.rows.to_target import profiles, ratios

SPREAD = (0.1, -0.1, 0.05, -0.05, 0.0, 0.1)


def runs(method, accuracies, status="done", **more):
    about = {**CELL, "method": method, "status": status, "evaluated_images": 1000, "classes": 10, **more}
    return [{**about, "repetition": r, "score": a} for r, a in enumerate(accuracies)]


def table_of(*groups):
    return comparisons(pd.DataFrame([run for group in groups for run in group]), "ssgd", CLASSIFICATION)


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
    assert list(table.gain_mean[:2]) == pytest.approx([1.0167, 0.0167], abs=1e-4)
    assert list(table.verdict) == ["different", "no_effect", "inconclusive"]
    assert list(table.words[:2]) == ["better by 1.02 points", "no effect of 0.3 points or more"]


def test_runs_that_are_not_done_are_in_no_pair_and_methods_that_are_skipped_in_no_row():
    thin = runs("thin", around(10), "diverged")[:2] + runs("thin", around(90))[2:]
    never = runs("never", [None] * 6, "skipped")
    table = table_of(runs("ssgd", [90.0] * 6), thin, never, runs("few", [90.0]))
    assert list(table.method) == ["thin", "few"]
    assert list(table.n) == [4, 1]
    assert list(table.words) == [
        "inconclusive: 4 pairs, and 5 are needed at least",
        "inconclusive: 1 pair, and 5 are needed at least",
    ]


@pytest.mark.parametrize(
    ("scores", "p", "alone", "among"),
    [
        # 0.12 +- 0.09 points have p = 0.02.
        (around(90.1), "p_different", "better by 0.12 points, but no effect", "no effect of 0.3 points"),
        # For 0 +- 0.31 points and a margin of 0.3, p is 0.03.
        (around(90, [0.27, -0.27] * 3), "p_same", "no effect of 0.3 points or more", "inconclusive"),
    ],
)
def test_more_methods_in_a_table_need_more_evidence(scores, p, alone, among):
    """What is enough for one method is not for four."""
    methods = [runs(name, scores) for name in "abcd"]
    one, four = (table_of(runs("ssgd", [90.0] * 6), *methods[:n]) for n in (1, 4))
    assert one[p][0] == pytest.approx(four[p][0])
    assert one[f"{p}_holm"][0] < 0.05 < four[f"{p}_holm"][0]
    assert four[f"{p}_holm"][0] == pytest.approx(4 * one[f"{p}_holm"][0])
    assert one.words[0].startswith(alone)
    assert four.words[0].startswith(among)


def test_beside_a_baseline_at_chance_level_nothing_is_told():
    table = table_of(
        runs("ssgd", [10.0] * 6),
        runs("thin", around(14)),
        runs("ssgd", [10.0] * 5 + [90.0], workers=8),
        runs("thin", [14.0] * 5 + [94.0], workers=8),
    )
    assert list(table.verdict) == ["inconclusive", "different"]
    assert table.words[0] == "inconclusive: the baseline's runs are at chance level"


def test_a_difference_that_may_be_below_the_noise_floor_of_tuning_is_not_called_one():
    """The interval of `edge` is -0.58 +- 0.10 points, so it has the noise floor of 0.52 inside."""
    scores = {"ssgd": 90, "again": 90.5, "edge": 89.4, "heir": 89.4, "far": 89, "equal": 90}
    spread = {method: (0.0,) * 6 if method in ("ssgd", "equal") else SPREAD for method in scores}
    table = pd.DataFrame([run for m in scores for run in runs(m, around(scores[m], spread[m]))])
    floor = noise_floor(table, "ssgd", "again", CLASSIFICATION)
    assert floor == pytest.approx(0.5 + sum(SPREAD) / 6)
    found = comparisons(table, "ssgd", CLASSIFICATION, floor, ["heir"]).set_index("method")
    assert found.detectable["edge"] == pytest.approx(floor + found.detectable["heir"], abs=1e-5)
    assert found.verdict.to_dict() == {
        "again": "inconclusive",
        "edge": "inconclusive",
        "heir": "different",
        "far": "different",
        "equal": "inconclusive",  # a margin of 0.3 is within the noise floor, too
    }
    assert noise_floor(table, "ssgd", None, CLASSIFICATION) == 0
    assert "not measured" in words.on_noise(0.0, CLASSIFICATION.unit, "ssgd", None)
    unknown = noise_floor(table[table.method != "again"], "ssgd", "again", CLASSIFICATION)
    found = comparisons(table, "ssgd", CLASSIFICATION, unknown, ["heir"]).set_index("method")
    assert found.words["far"] == "inconclusive: the noise floor of tuning is not known"
    assert found.verdict["heir"] == "different"


@pytest.mark.parametrize("lost", ["ssgd", "thin"])
def test_what_is_left_after_a_run_diverged_is_a_selection_and_says_nothing(lost):
    table = pd.DataFrame([*runs("ssgd", [90.0] * 6), *runs("thin", around(92))])
    table.loc[(table.method == lost) & (table.repetition == 5), "status"] = "diverged"
    found = comparisons(table, "ssgd", CLASSIFICATION)
    assert list(found.n) == [5]
    assert list(found.words) == ["inconclusive: 1 of 6 pairs have a run that diverged or failed"]


def test_words_and_the_file_round_a_tie_alike(tmp_path):
    """In tenths of points, half of all means of ten differences are ties at two digits."""
    random = np.random.default_rng(1)
    theirs = 100 - np.round(random.uniform(1, 30, 10), 2)
    ours = [theirs - 1.005 + np.round(random.permutation(np.repeat([-0.03, 0.03], 5)), 2) for _ in range(20)]
    table = table_of(runs("ssgd", theirs), *(runs(f"m{i}", values) for i, values in enumerate(ours)))
    write_table(table, tmp_path / "comparisons.csv", CLASSIFICATION)
    read = pd.read_csv(tmp_path / "comparisons.csv")
    assert list(read.difference_mean_points) == list(table.gain_mean)
    in_words = [re.search(r"[\d.]+", said)[0] for said in read.words]
    assert in_words == [text_of(abs(mean), 2) for mean in read.difference_mean_points]


BASELINES = ["ssgd", "ssgd_bf16"]


def block(repetition, kind="measured", status="done", **seconds):
    """The runs of a block, of 10 steps each, with the seconds of each method."""
    about = {**CELL, "cluster": None, "kind": kind, "repetition": repetition, "status": status, "steps": 10}
    return [{**about, "method": method, "train_seconds": s} for method, s in seconds.items()]


def blocks(n, **seconds):
    """Blocks whose machines differ in speed by factors up to 16, which pairs cancel."""
    made = []
    for i in range(n):
        noise = {"thin": 1 + 0.01 * (i % 3)}
        made += block(i, **{m: s * 2.0 ** (i % 5) * noise.get(m, 1) for m, s in seconds.items()})
    return pd.DataFrame(made)


def test_the_speed_up_is_the_geometric_mean_over_blocks_against_the_faster_baseline():
    runs = pd.DataFrame(block(0, ssgd=4, ssgd_bf16=3, thin=1) + block(1, ssgd=5, ssgd_bf16=3, thin=0.25))
    table = speed_ups(runs, BASELINES).set_index("method")
    assert set(table.against) == {"ssgd_bf16"}
    assert table.speed_up["thin"] == pytest.approx(6)  # sqrt(3 x 12)
    assert speed_ups(runs[runs.method == "thin"], BASELINES).empty


@pytest.mark.parametrize("change", [{"kind": "inprocess"}, {"kind": "simulated"}, {"status": "failed"}])
def test_only_times_of_runs_are_compared(change):
    assert speed_ups(blocks(6, ssgd=4, thin=1).assign(**change), BASELINES).empty


def test_the_table_says_faster_only_where_enough_blocks_say_it():
    table = speed_ups(blocks(6, ssgd=4, ssgd_bf16=5, thin=2), BASELINES).set_index("method")
    assert table.words["thin"] == f"{table.speed_up['thin']:.2f} times faster"
    assert table.speed_up_low["thin"] < table.speed_up["thin"] < table.speed_up_high["thin"]
    assert list(table.against) == ["ssgd"] * 3
    few = speed_ups(blocks(4, ssgd=4, thin=2), BASELINES).set_index("method")
    assert few.words["thin"] == "inconclusive: 4 pairs, and 5 are needed at least"
    assert few.p_different_holm.isna().all()
    # A suite without times has an empty table.
    table = speed_ups(blocks(6, ssgd=4, thin=2).drop(columns="train_seconds"), BASELINES)
    assert table.empty
    assert list(table) == list(SPEED_UP_COLUMNS)


def test_the_fastest_baseline_has_a_speed_up_of_1_and_no_test():
    table = speed_ups(blocks(6, ssgd=4, ssgd_bf16=3, thin=2), BASELINES).set_index("method")
    fastest = table.loc["ssgd_bf16"]
    assert (fastest.against, fastest.words) == ("ssgd_bf16", "the fastest baseline")
    assert fastest.n == 6
    assert list(fastest[["speed_up", "speed_up_low", "speed_up_high"]]) == [1, 1, 1]
    assert fastest[["p_different", "p_different_holm", "detectable_factor"]].isna().all()
    # It is not in the family of those that are judged together.
    assert table.p_different_holm["ssgd"] == pytest.approx(2 * table.p_different["ssgd"], rel=1e-6, abs=0)


def cell(workers, method, payload, seconds=(math.nan,) * 3):
    """The rows of a method in a cell, for its three targets."""
    place = {**CELL, "workers": workers, "kind": "measured", "method": method}
    return [
        place | {"payload_bytes_median": p, "train_seconds_median": s, "target_score": workers + i}
        for i, (p, s) in enumerate(zip(payload, seconds))
    ]


def profiles_of(*cells):
    return profiles(pd.DataFrame([row for rows in cells for row in rows]))


def of(table, metric, target):
    return table[(table.metric == metric) & (table.target_of_baseline_percent == target)]


def test_settings_within_a_factor_of_the_cheapest_by_hand():
    table = profiles_of(
        cell(4, "ssgd", (30, 30, 30)),
        cell(4, "thin", (10, 20, INF)),
        cell(8, "ssgd", (10, 10, 10)),
        cell(8, "thin", (5, 15, 25)),
        cell(8, "late", (20, 20, 20)),
    )
    first = of(table, "payload_bytes", 95)
    assert list(first.method) == ["ssgd", "thin", "late"]
    assert list(first.settings) == [2, 2, 1]
    assert list(first.within_1) == [0, 1, 0]
    assert list(first.within_2) == [0.5, 1, 0]
    assert list(first.within_4) == [1, 1, 1]
    assert list(first.score) == pytest.approx([(1 / 3 + 2 / 3) / 2, 1, 0])
    last = of(table, "payload_bytes", 99)
    assert list(last.within_4) == [1, 0.5, 1]
    assert list(last.score) == pytest.approx([1, (0 + 1.5 / 3) / 2, 2 / 3])
    assert set(table.metric) == {"payload_bytes"}


def test_seconds_have_profiles_where_runs_have_times():
    timed = cell(8, "ssgd", (1, 1, 1), (4, 4, 4)), cell(8, "thin", (1, 1, 1), (8, 2, 2))
    table = profiles_of(cell(4, "ssgd", (1, 1, 1)), cell(4, "thin", (1, 1, 1)), *timed)
    assert set(table.settings[table.metric == "train_seconds"]) == {1}
    assert list(of(table, "train_seconds", 95).within_1) == [1, 0]
    assert list(of(table, "train_seconds", 98).within_1) == [0, 1]
    assert set(table.settings[table.metric == "payload_bytes"]) == {2}
    # No targets are an empty table.
    assert profiles(pd.DataFrame(cell(4, "ssgd", (1, 1, 1)))[:0]).empty


INF = math.inf


def test_methods_that_need_nothing_are_the_best_and_none_is_where_all_miss():
    found = ratios(pd.DataFrame({"a": [0.0, 0, INF], "b": [0.0, 7, INF]}))
    assert list(found.a) == [1, 1, INF]
    assert list(found.b) == [1, INF, INF]
