"""Schedules that were measured while the machine had different speeds."""

from pathlib import Path

import pytest

from thinwire.config.expand import cells
from thinwire.config.grid_subset import WHOLE
from thinwire.config.suite import load
from thinwire.simulation import suite_times
from thinwire.simulation.operations import Compute, Post, Wait
from thinwire.simulation.simulate import at_common_speed


def step(speed, encode, layer="a"):
    """What a machine of this speed measures: passes of 1 and 2 seconds, a codec, a server of 0.5 seconds."""
    return [
        Compute("forward", layer, 1 / speed),
        Compute("backward", f"{layer}.weight", 2 / speed),
        Compute("encode", "top_k", encode / speed),
        Post(0, "world", (0, 1), "push_pull", 0, False, 8, 8, 0.5 / speed),
        Wait(0),
    ]


def test_the_speed_of_the_machine_is_taken_out_of_all_seconds():
    made = at_common_speed([[step(2, 4)], [step(1, 0)], [step(0.5, 7), step(0.5, 7)]])
    assert made == [[step(1, 4)], [step(1, 0)], [step(1, 7), step(1, 7)]]


def test_other_layers_are_compared_with_their_like_only():
    """The second method computes another pass, so its seconds say nothing about the speed."""
    made = at_common_speed([[step(1, 4)], [step(8, 4, layer="b")], [step(4, 4)]])
    # The passes of the first and the third take 3 and 0.75 seconds: the median, 1.875, is a speed of 1.6.
    assert made == [[step(1.6, 4)], [step(8, 4, layer="b")], [step(1.6, 4)]]


def test_where_a_method_wants_fewer_gradients_the_parts_that_all_have_are_compared():
    """The second one computes only the inputs' gradient of layer b, which says nothing about the speed."""

    def two_layers(speed, of_b):
        return [*step(speed, 4), Compute("forward", "b", 1 / speed), Compute("backward", *of_b)]

    whole, fewer = ("b.weight", 2 / 2), ("b.inputs", 1 / 0.5)
    made = at_common_speed(
        [[two_layers(2, whole)], [two_layers(0.5, fewer)], [two_layers(1, ("b.weight", 2))]]
    )
    expected = [("b.weight", 2.0), ("b.inputs", 1.0), ("b.weight", 2.0)]
    assert made == [[two_layers(1, of_b)] for of_b in expected]


def test_a_schedule_without_passes_is_kept():
    alone = [[Post(0, "world", (0, 1), "mean", 0, False, 8, 8, 0.0), Wait(0)]]
    assert at_common_speed([alone, [step(2, 1)]]) == [alone, [step(2, 1)]]


def test_the_methods_of_an_experiment_are_brought_to_one_speed_before_they_are_simulated(monkeypatch):
    """Each is mirrored while the machine has another speed; their steps take equally long nevertheless."""
    speeds = iter(range(1, 100))

    class Mirrored:
        def __init__(self, cell, results, cluster, steps):
            self.cell, self.workers, self.steps = cell, cluster.workers, {0: [step(next(speeds), 0)]}
            self.unlike_run = None

        def profile(self, name, cluster):
            return name

        def on(self, cluster, profile):
            return self

    def row(made, own_rate):
        place = {
            "dataset": "digits",
            "model": "cnn",
            "workers": made.workers,
            "cluster": "c",
            "profile": "here",
        }
        seconds = made.steps[0][0][0].seconds
        about = {"workers": made.workers, "rate_gbit_per_second": 1, "method": made.cell.method.label}
        return place | about | {"step_seconds": seconds}

    monkeypatch.setattr(suite_times, "SimulatedCell", Mirrored)
    monkeypatch.setattr(suite_times, "_row", row)
    asked = load("demo").simulate.model_copy(update={"rates_gbit_per_second": [], "profiles": ["here"]})
    rows = suite_times.simulate_suite("demo", Path("results"), asked, WHOLE, lambda line: None, print)
    assert set(rows.method) == {cell.method.label for cell in cells("demo")}
    assert rows.step_seconds.max() == pytest.approx(rows.step_seconds.min())
