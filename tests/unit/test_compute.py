"""Descriptions of clusters and of devices, and what is typical of measured steps."""

import numpy as np
import pytest
import torch
import yaml
from torch import nn

from tests.bad_input.suites import cases, message, require
from thinwire.base.errors import UserError
from thinwire.config import clusters
from thinwire.config.clusters import Device
from thinwire.simulation.compute import Described, MeasuredHere, forward_flops, typical
from thinwire.simulation.operations import Compute, Post, Wait

SOUND = {
    "title": "two nodes",
    "nodes": 2,
    "workers_per_node": 1,
    "link": {"rate_mbit_per_second": 100, "latency_seconds": 0},
    "memory_bus_gigabytes_per_second": 5,
    "call_latency_seconds": 0,
}
NAMES = sorted(path.stem for path in clusters.CLUSTERS.glob("*.yaml"))


def read(tmp_path, content):
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(content))
    return clusters.read(path)


@pytest.mark.parametrize("name", NAMES)
def test_every_cluster_is_valid_and_says_where_its_numbers_come_from(name):
    cluster = clusters.load_cluster(name)
    assert cluster.name == name
    text = (clusters.CLUSTERS / f"{name}.yaml").read_text()
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


def test_an_unknown_name_is_answered_with_the_nearest():
    with pytest.raises(UserError, match=r"there is no cluster 'ethernet_1gb'.*the nearest is ethernet_1g$"):
        clusters.load_cluster("ethernet_1gb")


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
    profile = MeasuredHere(steps)
    pace = profile.pace(200, 3, seed=1)
    assert set(np.unique(pace)) == {0.5, 1.0, 1.5}
    np.testing.assert_array_equal(pace, profile.pace(200, 3, seed=1))
    assert (pace != profile.pace(200, 3, seed=2)).any()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 3, 3, padding=1)
        self.norm = nn.BatchNorm2d(3)
        self.linear = nn.Linear(48, 10)

    def forward(self, images):
        return self.linear(self.norm(self.conv(images)).flatten(1))


def test_floating_point_operations_of_layers_by_hand():
    """Two for each multiply and add: 3 x 2 x 9 weights at 16 places, and 48 x 10 weights, for 5 images."""
    counted = forward_flops(Model(), torch.ones(5, 2, 4, 4))
    assert counted["conv"] == 2 * 5 * 16 * 54
    assert counted["linear"] == 2 * 5 * 480
    assert counted["norm"] == 0


def device(flops, launch, memory=1.0):
    return Device(
        title="made up",
        precision="fp32",
        flops_per_second=flops,
        memory_gigabytes_per_second=memory,
        launch_seconds=launch,
        error="of no importance",
    )


@pytest.fixture
def described():
    return Described("made_up", device(1e9, 1e-6, memory=100), {"conv": 4_000_000, "norm": 0}, 10e9, 0.0)


@pytest.mark.parametrize(
    ("computed", "expected"),
    [
        (Compute("forward", "conv", 7.0), 4e-3),
        (Compute("backward", "conv.weight", 7.0), 8e-3),
        (Compute("backward", "conv.inputs", 7.0), 4e-3),
        (Compute("backward", "conv.bias", 7.0), 1e-6),
        (Compute("forward", "norm", 7.0), 1e-6),
        (Compute("encode", "take", 7.0), 0.7),  # its memory is ten times as fast
        (Compute("encode", "take", 0.0), 1e-6),
        (Compute("forward", "", 7.0), 0.0),
    ],
)
def test_a_described_device(described, computed, expected):
    assert described.seconds(computed) == pytest.approx(expected)


def test_a_layer_that_the_profile_lacks_is_one_sentence(described):
    with pytest.raises(UserError, match="the compute profile made_up has no layer 'stem'"):
        described.seconds(Compute("forward", "stem", 1.0))


def test_the_pace_of_a_described_device_has_its_variation(described):
    assert (described.pace(10, 4, 0) == 1).all()
    varied = Described("made_up", described.device, {}, 1.0, 0.2).pace(2000, 50, 0)
    assert varied.mean() == pytest.approx(1, abs=0.01)
    assert varied.std() == pytest.approx(0.2, abs=0.01)


def test_profiles_that_ship_are_valid_and_say_how_wrong_they_are():
    names = [path.stem for path in clusters.PROFILES.glob("*.yaml")]
    assert {"a100_tf32", "v100_fp32"} <= set(names)
    for name in names:
        assert clusters.load_profile(name).error
    with pytest.raises(UserError, match=r"no compute profile 'a100'.*the nearest is a100_tf32"):
        clusters.load_profile("a100")


def test_a_profile_of_another_precision_than_the_recipes_is_said_in_one_sentence():
    for profile, precision in (
        ("v100_fp32", "fp32"),
        ("a100_tf32", "tf32"),
        ("here", "fp32"),
        ("here", "bf16"),
    ):
        assert clusters.unlike_recipe(profile, precision) is None
    assert clusters.unlike_recipe("here", "tf32").endswith(
        "these are times of runs with recipe.precision: fp32"
    )
