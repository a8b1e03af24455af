"""Times of the methods of a suite on clusters of GPUs, and what its key `without_data` may say."""

from dataclasses import replace

import pandas as pd
import pytest

from thinwire.base.folders import REFERENCE
from thinwire.config.entry_schema import EVERY, Entry
from thinwire.config.expand import cells
from thinwire.config.hardware import Link
from thinwire.config.suite import load
from thinwire.config.suite_problems import without_data_problems
from thinwire.config.suite_schema import Round, WithoutData
from thinwire.config.yaml_file import Module
from thinwire.plugins import ROOT
from thinwire.simulation.suite_times import PLACE, fastest, rows_of, silent

SUITE = "times/cifar10"
SETTINGS = WithoutData(
    accelerators=["a100_bf16"],
    cluster="infiniband_1600g_8gpus",
    workers=[2, 4, 8],
    workers_per_node=[2],
    links=[Link(rate_gbit_per_second=rate, latency_seconds=1e-5) for rate in (1, 100)],
    rounds={"local_sgd": Round(steps=4)},
)


def rows(method, **options):
    first = cells(SUITE)[0]
    small = replace(first, model=Module("cnn", "cnn", {"width": 8}), method=Module(method, method, options))
    made, reasons = rows_of(small, "a100_bf16", SETTINGS)
    assert not reasons
    return pd.DataFrame(made)


def test_there_is_a_row_for_every_cluster_of_several_nodes_and_every_link():
    made = rows("ssgd")
    assert [*zip(made.workers, made.nodes)] == [(4, 2), (4, 2), (8, 4), (8, 4)]
    assert not made.duplicated(PLACE).any()
    slow, fast = (made[made.rate_gbit_per_second == rate] for rate in (1, 100))
    assert (slow.step_seconds.values > fast.step_seconds.values).all()
    assert (made.compute_seconds <= made.step_seconds).all()


def test_a_method_that_sends_every_few_steps_sends_so_many_times_less_in_the_mean():
    every, fourth = rows("ssgd", bucket_mb=100), rows("local_sgd", period=4)
    ratio = every.between_nodes_bytes / fourth.between_nodes_bytes
    assert ratio.values == pytest.approx(4, rel=0.02)


def test_a_method_that_sends_nothing_in_its_round_is_named():
    """Its times would be those of computing alone, and its speed-up false."""
    (sentence,) = silent(pd.concat([rows("ssgd"), rows("local_sgd", period=16)]), SUITE)
    assert sentence.startswith("local_sgd: the steps of its round are not like the whole run")
    assert "set without_data.rounds.local_sgd.steps in config/times/cifar10.yaml" in sentence


def test_the_fastest_method_at_each_rate_is_named():
    steps = ((1, "ssgd", 4.0), (1, "top_k", 2.0), (10, "ssgd", 1.0))
    made = pd.DataFrame(
        [("net", "gpu", 8, 2, rate, 0.025, method, each, 4.0 / each) for rate, method, each in steps],
        columns=[*PLACE, "method", "step_seconds", "speed_up"],
    )
    assert [*fastest(made)] == [
        "net on gpu, 8 workers on 2 nodes, 25 ms one way (simulated): 1 Gbit/s: top_k 2; 10 Gbit/s: ssgd 4"
    ]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"cluster": "infiniband"}, "without_data.cluster: there is no cluster infiniband"),
        ({"accelerators": ["h100"]}, "without_data.accelerators: there is no accelerator h100"),
        ({"accelerators": ["v100_fp32"]}, "v100_fp32 is of fp32, and the recipe of bf16"),
        ({"workers": [8, 12, 6]}, "6 workers fit no two nodes"),
        ({"rounds": {"locl_sgd": Round(steps=4)}}, "there is no method locl_sgd"),
    ],
)
def test_what_the_key_cannot_say_is_one_sentence(change, sentence):
    suite = load(SUITE)
    wrong = suite.model_copy(update={"without_data": suite.without_data.model_copy(update=change)})
    (problem,) = without_data_problems(wrong)
    assert sentence in problem.replace("'", "")


def test_a_method_may_have_rounds_that_only_the_star_names():
    suite = load(SUITE)
    settings = suite.without_data.model_copy(update={"rounds": {"local_sgd": Round(steps=4)}})
    starred = suite.model_copy(update={"methods": {EVERY: Entry()}, "without_data": settings})
    assert list(without_data_problems(starred)) == []


@pytest.mark.slow
@pytest.mark.parametrize("method", ["ssgd", "top_k"])
def test_the_committed_times_are_those_of_this_code(method):
    cell = next(c for c in cells(SUITE) if (c.model.label, c.method.label) == ("resnet18", method))
    made, _ = rows_of(cell, "a100_bf16", load(SUITE).without_data)
    committed = pd.read_csv(ROOT / REFERENCE / "times" / f"{SUITE}.csv")
    ours = committed[(committed.model == "resnet18") & (committed.method == method)]
    both = pd.DataFrame(made).merge(ours, on=[*PLACE, "method"], suffixes=("", "_committed"))
    assert len(both) == len(ours) == len(made)
    for column in ("step_seconds", "compute_seconds", "between_nodes_bytes"):
        assert both[column].values == pytest.approx(both[f"{column}_committed"].values, rel=1e-4)
