"""Descriptions of clusters, and measured steps: what is typical of them, and their common speed."""

from pathlib import Path

import numpy as np
import pytest
import yaml

from tests.bad_input.suites import cases, message, require
from thinwire.base.errors import UserError
from thinwire.config import hardware
from thinwire.config.expand import cells
from thinwire.config.grid_subset import WHOLE, Subset
from thinwire.config.suite import load
from thinwire.simulation import suite_times
from thinwire.simulation.program import Compute, Post, Wait
from thinwire.simulation.simulate import at_common_speed, pace, typical

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
link: {rate: 1} => link.rate: there is no such key; the nearest is link.rate_mbit_per_second
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
    drawn = pace(steps, 200, 3)
    assert set(np.unique(drawn)) == {0.5, 1.0, 1.5}
    np.testing.assert_array_equal(drawn, pace(steps, 200, 3))


def test_a_cluster_may_have_more_variation_than_was_measured():
    steps = [step(1.0) for _ in range(6)]
    assert (pace(steps, 10, 4) == 1).all()
    varied = pace(steps, 2000, 50, variation=0.2)
    assert varied.mean() == pytest.approx(1, abs=0.01)
    assert varied.std() == pytest.approx(0.2, abs=0.01)


def measured(speed, encode, layer="a"):
    """What a machine of this speed measures: passes of 1 and 2 seconds, a codec, a server of 0.5 seconds."""
    return [
        Compute("forward", layer, 1 / speed),
        Compute("backward", f"{layer}.weight", 2 / speed),
        Compute("encode", "top_k", encode / speed),
        Post(0, "world", (0, 1), "push_pull", 0, False, 8, 8, 0.5 / speed),
        Wait(0),
    ]


def test_the_speed_of_the_machine_is_taken_out_of_all_seconds():
    made = at_common_speed([[measured(2, 4)], [measured(1, 0)], [measured(0.5, 7), measured(0.5, 7)]])
    assert made == [[measured(1, 4)], [measured(1, 0)], [measured(1, 7), measured(1, 7)]]
    # A schedule without passes is kept.
    alone = [[Post(0, "world", (0, 1), "mean", 0, False, 8, 8, 0.0), Wait(0)]]
    assert at_common_speed([alone, [measured(2, 1)]]) == [alone, [measured(2, 1)]]


def test_other_layers_are_compared_with_their_like_only():
    """The second method computes another pass, so its seconds say nothing about the speed."""
    made = at_common_speed([[measured(1, 4)], [measured(8, 4, layer="b")], [measured(4, 4)]])
    # The passes of the first and the third take 3 and 0.75 seconds: the median, 1.875, is a speed of 1.6.
    assert made == [[measured(1.6, 4)], [measured(8, 4, layer="b")], [measured(1.6, 4)]]


def test_where_a_method_wants_fewer_gradients_the_parts_that_all_have_are_compared():
    """The second one computes only the inputs' gradient of layer b, which says nothing about the speed."""

    def two_layers(speed, of_b):
        return [*measured(speed, 4), Compute("forward", "b", 1 / speed), Compute("backward", *of_b)]

    whole, fewer = ("b.weight", 2 / 2), ("b.inputs", 1 / 0.5)
    made = at_common_speed(
        [[two_layers(2, whole)], [two_layers(0.5, fewer)], [two_layers(1, ("b.weight", 2))]]
    )
    expected = [("b.weight", 2.0), ("b.inputs", 1.0), ("b.weight", 2.0)]
    assert made == [[two_layers(1, of_b)] for of_b in expected]


def test_the_methods_of_an_experiment_are_brought_to_one_speed_before_they_are_simulated(monkeypatch):
    """Each is mirrored while the machine has another speed; their steps take equally long nevertheless."""
    speeds = iter(range(1, 100))

    class Mirrored:
        def __init__(self, cell, results, cluster, steps, accelerator):
            self.cell, self.workers, self.steps = cell, cluster.workers, {0: [measured(next(speeds), 0)]}
            self.unlike_run = None

    def row(made, described, own_rate):
        place = {"dataset": "digits", "model": "cnn", "cluster": "c"}
        seconds = made.steps[0][0][0].seconds
        about = {"workers": made.workers, "rate_gbit_per_second": 1, "method": made.cell.method.label}
        return place | about | {"step_seconds": seconds}

    monkeypatch.setattr(suite_times, "SimulatedCell", Mirrored)
    monkeypatch.setattr(suite_times, "_row", row)
    asked = load("demo").simulate.model_copy(update={"rates_gbit_per_second": []})
    rows = suite_times.simulate_suite("demo", Path("results"), asked, WHOLE, lambda line: None, print)
    assert set(rows.method) == {cell.method.label for cell in cells("demo")}
    assert rows.step_seconds.max() == pytest.approx(rows.step_seconds.min())


def test_a_method_whose_workers_wait_for_ever_leaves_the_others_their_times(monkeypatch, tmp_path):
    simulate = suite_times.SimulatedCell.on

    def on(made, described):
        if made.cell.method.label == "top_k":
            raise UserError("its workers wait")
        return simulate(made, described)

    monkeypatch.setattr(suite_times.SimulatedCell, "on", on)
    asked = load("demo").simulate.model_copy(update={"clusters": ["wan_100m"], "workers": [2], "steps": 4})
    log, some = [], Subset.of_words(["methods=ssgd,top_k"])
    rows = suite_times.simulate_suite("demo", tmp_path, asked, some, log.append, print)
    assert set(rows.method) == {"ssgd"}
    assert "top_k on wan_100m: left out, because its workers wait" in log
