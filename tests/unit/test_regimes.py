"""Times simulated without data: reading them, the fastest method of a place, where a published gain holds."""

import math
import re

import pandas as pd
import pytest

from thinwire.base.errors import UserError
from thinwire.report.plan_table import Known, accuracy_in_words, fastest, known, of_methods
from thinwire.report.regimes import PUBLISHED, Published, in_words, markdown, regimes
from thinwire.simulation import simulated_file

STEPS = {"ssgd": 4.0, "ssgd_bf16_25mb": 3.0, "hsgd": 2.0, "daso": 1.5, "sparse_loco": 1.0}


def rows(rate=1.0, every=STEPS, suite="times/net", **steps):
    """A row for each method, with the seconds of its step."""
    steps = every | steps
    baseline = min((label for label in steps if label.startswith("ssgd")), key=steps.get)
    made = pd.DataFrame(
        [(label, seconds, steps[baseline] / seconds) for label, seconds in steps.items()],
        columns=["method", "step_seconds", "speed_up"],
    )
    return made.assign(
        suite=suite,
        dataset="data",
        model="net",
        workers=16,
        nodes=2,
        kind="simulated",
        cluster="ethernet",
        rate_gbit_per_second=rate,
        latency_seconds=1e-5,
        accelerator="gpu",
        compute_seconds=0.5,
        between_nodes_bytes=1e6,
        baseline=baseline,
    )


def write(results, suite, made):
    path = simulated_file.path_of_times(results, suite)
    path.parent.mkdir(parents=True, exist_ok=True)
    made.to_csv(path, index=False)
    return path


def test_the_times_of_all_suites_are_read_and_labels_stay_text(tmp_path):
    assert simulated_file.read_times(tmp_path) is None
    write(tmp_path, "times/b", rows())
    write(tmp_path, "a", rows().assign(model="1"))
    read = simulated_file.read_times(tmp_path)
    assert [*read.model.unique()] == ["1", "net"]
    assert len(read) == 2 * len(STEPS)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("suite,dataset\na,b\n", "has no column model"),
        (rows().assign(workers="many").to_csv(index=False), "workers is no number in every row"),
    ],
)
def test_a_broken_file_is_refused_with_the_command_that_makes_it_again(tmp_path, text, sentence):
    write(tmp_path, "times/b", rows()).write_text(text)
    with pytest.raises(UserError, match=rf"b\.csv:? {sentence}.*`thinwire times times/b --results"):
        simulated_file.read_times(tmp_path)


def test_the_fastest_of_each_place_stands_beside_the_fastest_baseline():
    slow, fast = fastest(pd.concat([rows(), rows(rate=10.0, ssgd_bf16_25mb=1.0)])).itertuples()
    assert (slow.method, slow.baseline, slow.gain) == ("sparse_loco", "ssgd_bf16_25mb", 3.0)
    assert (slow.workers_per_node, slow.accuracy) == (8, Known.UNKNOWN)
    # The baseline takes as long as the fastest method.
    assert (fast.method, fast.gain, fast.accuracy) == ("ssgd_bf16_25mb", 1.0, Known.SAME)


def test_only_methods_of_whose_accuracy_this_is_known_take_part():
    (same,) = fastest(rows(), [Known.SAME]).itertuples()
    assert (same.method, same.gain) == ("hsgd", 1.5)
    (none,) = fastest(rows(hsgd=5.0), [Known.SAME]).itertuples()
    assert (none.method, none.gain) == ("ssgd_bf16_25mb", 1.0)


def test_a_place_without_a_baseline_has_no_gain():
    assert fastest(rows().assign(baseline=None)).empty


def test_what_the_study_knows_of_a_method():
    assert known("ps_sgd") == known("ssgd_bf16_25mb") == Known.SAME
    assert known("top_k") == known("daso") == Known.CHANGED
    assert known("sparse_loco") == Known.UNKNOWN


def test_differences_in_words_have_a_true_minus_and_zero_has_no_sign():
    words = " ".join(map(accuracy_in_words, of_methods()))
    assert re.search(r"\N{MINUS SIGN}\d", words)
    assert not re.search(r"-\d|[-+\N{MINUS SIGN}]0\.0\b", words)


ONE = Published("A", "twice as fast", 2.0, "times/a", "a", ("own", "ssgd"), (1.0, 4.0), {"a": 0.5, "b": 0.5})
# Of a step, by rate. The mean of `a` and `b` is 1; the fastest SSGD is `ssgd_bf16`.
OF_RATES = {
    0.5: {"a": 0.5, "b": 1.5, "own": 8.0, "ssgd": 1.9, "ssgd_bf16": 1.5},
    1.0: {"a": 0.5, "b": 1.5, "own": 4.0, "ssgd": 1.8, "ssgd_bf16": 1.4},
    4.0: {"a": 0.5, "b": 1.5, "own": 1.0, "ssgd": 1.7, "ssgd_bf16": 1.3},
}
TIMES = pd.concat([rows(rate, steps, "times/a") for rate, steps in OF_RATES.items()])


def test_the_gain_at_own_rates_and_the_rate_at_which_the_published_one_ends():
    slow, fast, *_ = regimes(TIMES, [ONE]).itertuples()
    assert (slow.against, slow.rate_gbit_per_second, slow.gain) == ("own", 1.0, 4.0)
    assert (fast.rate_gbit_per_second, fast.gain) == (4.0, 1.0)
    assert (slow.best_ssgd, slow.gain_over_best_ssgd) == ("ssgd_bf16", 1.4)
    # From 1 to 4 Gbit/s the gain falls from 4 to 1: it is 2 in the middle of logarithmic axes.
    assert slow.holds_from_gbit_per_second == 0
    assert slow.holds_to_gbit_per_second == pytest.approx(2.0)


def test_a_gain_without_a_baseline_of_ssgd_or_a_rate_that_was_not_simulated_leaves_places_empty():
    own = TIMES[~TIMES.method.str.startswith("ssgd")].assign(baseline=math.nan)
    slow, *_ = regimes(own, [ONE]).itertuples()
    assert slow.gain == 4.0
    assert math.isnan(slow.gain_over_best_ssgd)
    assert {*regimes(TIMES[TIMES.rate_gbit_per_second != 4], [ONE]).rate_gbit_per_second} == {1.0}


def test_of_two_latencies_at_a_rate_the_least_counts():
    far = TIMES.assign(latency_seconds=0.05, step_seconds=TIMES.step_seconds + 1)
    assert regimes(pd.concat([far, TIMES]), [ONE]).equals(regimes(TIMES, [ONE]))


def test_of_baselines_that_a_file_cannot_tell_apart_the_first_of_the_suite_is_named():
    steps = {"ssgd_5mb": 1.0, "top_k": 0.5, "ssgd_1mb": 1.0 - 1e-12}
    for labels in (["ssgd_1mb", "ssgd_5mb"], ["ssgd_5mb", "ssgd_1mb"]):
        made = rows(every=steps).drop(columns=["baseline", "speed_up"])
        named = simulated_file.with_speed_up(made, labels, ["model", "rate_gbit_per_second"])
        assert set(named.baseline) == {labels[0]}


def test_the_text_has_a_row_for_each_baseline():
    found = regimes(TIMES, [ONE])
    first, second = markdown(found).splitlines()[2:]
    assert "| `net`, 16 on 2 | twice as fast | `own` | 4.00 at 1, 1.00 at 4 |" in first
    assert first.endswith("| up to 2 |")
    assert second.endswith("| none from 0.5 to 4 |")


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (math.nan, math.nan, "none from 0.1 to 400"),
        (0, math.inf, "all from 0.1 to 400"),
        (0, 3.14, "up to 3.1"),
        (3.14, math.inf, "from 3.1 on"),
        (3.14, 377, "3.1 to 380"),
    ],
)
def test_what_is_said_of_the_rates(low, high, words):
    assert in_words(low, high, 0.1, 400.0) == words


def test_suites_and_methods_without_times_have_no_rows():
    assert regimes(TIMES).empty
    assert {*regimes(TIMES[TIMES.method != "own"], [ONE]).against} == {"ssgd"}
    assert regimes(TIMES[TIMES.method != "b"], [ONE]).empty


@pytest.mark.parametrize("one", PUBLISHED, ids=lambda one: f"{one.publication}: {one.says}")
def test_every_published_gain_names_what_its_suite_simulates(one):
    from thinwire.config.suite import load

    suite = load(one.suite)
    assert {*one.shares, *one.baselines} <= suite.methods.keys()
    assert sum(one.shares.values()) == pytest.approx(1)
    rates = {link.rate_gbit_per_second for link in suite.without_data.links}
    assert rates >= set(one.rates)
