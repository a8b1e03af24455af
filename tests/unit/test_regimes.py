"""At which rates a published gain would hold, on the network and cluster of its publication."""

import math

import pandas as pd
import pytest

from thinwire.report.regimes import PUBLISHED, Published, in_words, markdown, regimes

ONE = Published("A", "twice as fast", 2.0, "times/a", "a", {"a": 0.5, "b": 0.5}, ("own", "ssgd"), (1.0, 4.0))
# Of a step, by rate. The mean of `a` and `b` is 1; the fastest SSGD is `ssgd_bf16`.
STEPS = {
    0.5: {"a": 0.5, "b": 1.5, "own": 8.0, "ssgd": 1.9, "ssgd_bf16": 1.5},
    1.0: {"a": 0.5, "b": 1.5, "own": 4.0, "ssgd": 1.8, "ssgd_bf16": 1.4},
    4.0: {"a": 0.5, "b": 1.5, "own": 1.0, "ssgd": 1.7, "ssgd_bf16": 1.3},
}
TIMES = pd.DataFrame(
    [
        ("times/a", "net", "gpu", 8, 2, rate, 1e-5, method, seconds, "ssgd_bf16")
        for rate, steps in STEPS.items()
        for method, seconds in steps.items()
    ],
    columns=[
        *("suite", "model", "accelerator", "workers", "nodes", "rate_gbit_per_second", "latency_seconds"),
        *("method", "step_seconds", "baseline"),
    ],
)


def test_the_gain_at_own_rates_and_the_rate_at_which_the_published_one_ends():
    slow, fast, *_ = regimes(TIMES, [ONE]).itertuples()
    assert (slow.against, slow.rate_gbit_per_second, slow.gain) == ("own", 1.0, 4.0)
    assert (fast.rate_gbit_per_second, fast.gain) == (4.0, 1.0)
    assert (slow.best_ssgd, slow.gain_over_best_ssgd) == ("ssgd_bf16", 1.4)
    # From 1 to 4 Gbit/s the gain falls from 4 to 1: it is 2 in the middle of logarithmic axes.
    assert slow.holds_from_gbit_per_second == 0
    assert slow.holds_to_gbit_per_second == pytest.approx(2.0)


def test_the_text_has_a_row_for_each_baseline():
    found = regimes(TIMES, [ONE])
    first, second = markdown(found).splitlines()[2:]
    assert "| `net`, 8 on 2 | twice as fast | `own` | 4.00 at 1, 1.00 at 4 |" in first
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
