"""The rate of links at which DASO saves a share of the time: bisection, rows, sentences, and the figure."""

import math

import pandas as pd
import pytest

from thinwire.base.errors import UserError
from thinwire.config import clusters
from thinwire.report import simulated_tables as shown
from thinwire.simulation.questions import RATE_CLUSTER, highest_rate, required_rates
from thinwire.simulation.without_data import MeanStep

OFFERED = clusters.load_cluster(RATE_CLUSTER)
# Bytes of a node in a step, and the seconds of computing.
SENT = {"ssgd_no_overlap": 0.2e9, "ssgd": 0.15e9, "ssgd_bf16": 0.1e9, "daso": 0.1e9, "daso_cycling": 0.0}
COMPUTE = 0.25


def step(method, cluster, nodes):
    sent = SENT[method] * 2 * (nodes - 1) / nodes
    return MeanStep(COMPUTE + sent / cluster.link.rate_bytes_per_second, COMPUTE)


def table_of(nodes=(2, 4), **options):
    return pd.DataFrame(required_rates(step, OFFERED, nodes, **options))


def test_the_rate_is_found_within_a_percent():
    assert highest_rate(lambda rate: 1 / rate, 0.5, 0.01, 100) == pytest.approx(2, rel=0.01)
    assert highest_rate(lambda rate: 1 / rate, 0.5, 0.01, 100) <= 2


def test_the_ends_of_the_range_are_answers_of_their_own():
    assert highest_rate(lambda rate: 0.5, 0.5, 0.01, 100) == 100
    assert highest_rate(lambda rate: 0.4, 0.5, 0.01, 100) is None


@pytest.mark.parametrize(("low", "high"), [(0, 1), (-1, 1), (2, 1), (1, 1), (1, math.inf)])
def test_what_is_no_range_is_refused(low, high):
    with pytest.raises(UserError, match="no range of rates"):
        highest_rate(lambda rate: 1 / rate, 0.5, low, high)


@pytest.mark.parametrize(("nodes", "share"), [(2, 0.34), (4, 0.34), (4, 0.17)])
def test_the_rate_agrees_with_the_closed_formula(nodes, share):
    """In this stand-in, the baseline exposes y = sent / rate, and DASO does so in 8 of 90 epochs."""
    found = table_of(nodes=(nodes,), share=share).set_index("baseline").required_gigabytes_per_second
    for baseline in ("ssgd_no_overlap", "ssgd", "ssgd_bf16"):
        sent, own = (SENT[name] / 1e9 * 2 * (nodes - 1) / nodes for name in (baseline, "daso"))
        expected = ((1 - share) * sent - own * 8 / 90) / (share * COMPUTE)
        assert found[baseline] == pytest.approx(expected, rel=0.01)


def test_one_sentence_says_that_no_rate_does_it():
    rows = table_of(nodes=(4,), share=0.99)
    assert rows.required_gigabytes_per_second.isna().all()
    first, *_ = shown.sentences(rows)
    assert first == (
        "4 nodes against ssgd_no_overlap: in our simulation, no rate up to 100 GB/s saves 99 % of the time."
    )


def test_a_sentence_is_about_our_simulation_and_names_the_cluster():
    for sentence in shown.sentences(table_of()):
        assert "our simulation needs at most" in sentence
        assert "infiniband_800g_4gpus offers 100 GB/s" in sentence
