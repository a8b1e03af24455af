"""Descriptions of clusters, and what is typical of measured steps."""

import numpy as np
import pytest
import yaml

from tests.bad_input.suites import cases, message, require
from thinwire.config import hardware
from thinwire.simulation.compute import pace, typical
from thinwire.simulation.operations import Compute, Post, Wait

SOUND = {
    "title": "two nodes",
    "nodes": 2,
    "workers_per_node": 1,
    "link": {"rate_mbit_per_second": 100, "latency_seconds": 0},
    "memory_bus_gigabytes_per_second": 5,
    "call_latency_seconds": 0,
}
NAMES = sorted(path.stem for path in hardware.CLUSTERS.glob("*.yaml"))


def read(tmp_path, content):
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(content))
    return hardware.read(path)


@pytest.mark.parametrize("name", NAMES)
def test_every_cluster_is_valid_and_says_where_its_numbers_come_from(name):
    cluster = hardware.load_cluster(name)
    assert cluster.name == name
    text = (hardware.CLUSTERS / f"{name}.yaml").read_text()
    assert text.startswith("# ")
    assert len(text.partition("\ntitle")[0].splitlines()) >= 3


@pytest.mark.parametrize(
    ("unit", "rate", "bits"), [("mbit", 100, 1e8), ("gbit", 25, 25e9), ("gbit", 0.5, 5e8)]
)
def test_rates_are_in_bits_and_bytes_per_second(tmp_path, unit, rate, bits):
    link = {f"rate_{unit}_per_second": rate, "latency_seconds": 1e-3}
    made = read(tmp_path, SOUND | {"link": link}).link
    assert made.rate_bits_per_second == bits
    assert made.rate_bytes_per_second == bits / 8


WRONG = """
node: 2 => node: there is no such key; the nearest is nodes
latency: 2 => latency: there is no such key; the nearest is link.latency_seconds
name: other => name: it is that of the file; leave it out
nodes: 0 => nodes: input should be greater than or equal to 1, not 0
algorithms: {all_reduce: rings} => 'ring', 'tree' or 'hierarchical', not 'rings'
link: {rate_mbit_per_second: 0, latency_seconds: 0} => input should be greater than 0, not 0
link: {rate_mbits_per_second: 1, latency_seconds: 0}
    => link.rate_mbits_per_second: there is no such key; the nearest is link.rate_mbit_per_second
link: {latency_seconds: 0} => give either rate_gbit_per_second or rate_mbit_per_second
link: {rate_mbit_per_second: 1} => link.latency_seconds: it is missing
link: {rate_mbit_per_second: 1, latency_seconds: -1} => greater than or equal to 0, not -1
"""


@pytest.mark.parametrize(("change", "words"), cases(WRONG))
def test_what_is_wrong_is_said_in_a_sentence(tmp_path, change, words):
    require(message(read, tmp_path, SOUND | change), words)


SENT = Post(0, "world", (0, 1), "mean", 0, False, 8, 8, 0.0)


def step(seconds, *more):
    return [Compute("forward", "a", seconds), Compute("backward", "a.weight", 2 * seconds), *more]


def test_typical_steps_have_medians_over_steps_with_the_same_operations():
    """By hand: steps 3 to 7, of two kinds; the first three are slow and do not count."""
    plain = [9.0, 9.0, 9.0, 1.0, 0, 3.0, 0, 5.0]
    steps = [step(s) if s else step(10.0 + n, SENT, Wait(0)) for n, s in enumerate(plain)]
    made = typical(steps)
    assert [one[0].seconds for one in made] == [3.0, 3.0, 3.0, 3.0, 15.0, 3.0, 15.0, 3.0]
    assert made[3][1].seconds == 6.0
    assert made[4][2:] == [SENT, Wait(0)]
    assert steps[0][0].seconds == 9.0  # unchanged


def test_the_pace_here_is_drawn_from_the_steps_that_were_measured():
    steps = [step(s) for s in (50.0, 50.0, 50.0, 1.0, 2.0, 3.0)]
    drawn = pace(steps, 200, 3, seed=1)
    assert set(np.unique(drawn)) == {0.5, 1.0, 1.5}
    np.testing.assert_array_equal(drawn, pace(steps, 200, 3, seed=1))
    assert (drawn != pace(steps, 200, 3, seed=2)).any()


def test_a_cluster_may_have_more_variation_than_was_measured():
    steps = [step(1.0) for _ in range(6)]
    assert (pace(steps, 10, 4, seed=0) == 1).all()
    varied = pace(steps, 2000, 50, seed=0, variation=0.2)
    assert varied.mean() == pytest.approx(1, abs=0.01)
    assert varied.std() == pytest.approx(0.2, abs=0.01)
