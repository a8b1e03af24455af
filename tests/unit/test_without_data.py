"""Cells that are simulated without their data, on any number of nodes, and what is asked of them."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from thinwire.base.placement import Cluster
from thinwire.config import hardware
from thinwire.config.expand import cells
from thinwire.config.hardware import load_accelerator
from thinwire.config.yaml_file import Module
from thinwire.report.figures import steps as shown
from thinwire.simulation import ladder_ratio, stand_ins, without_data
from thinwire.simulation.device_clock import DeviceClock
from thinwire.simulation.ladder_ratio import RATIO_CLUSTER, ratios
from thinwire.simulation.mirrored import MirroredCell
from thinwire.simulation.plan import highest_rate
from thinwire.simulation.program import Post
from thinwire.simulation.without_data import CellWithoutData, MeanStep

CLUSTER, DEVICE = hardware.load_cluster("infiniband_800g_4gpus"), "a100_tf32"
SMALL = Module("cnn", "cnn", {"width": 8})


def cell_of(method, **options):
    first = next(c for c in cells("claims/daso_time") if c.method.label == "ssgd")
    return replace(
        first, data=Module("cifar10", "cifar10", {}), model=SMALL, method=Module(method, method, options)
    )


@pytest.fixture(scope="module")
def ssgd():
    return CellWithoutData(cell_of("ssgd"), 4, DEVICE)


def calls_of(steps):
    """What is handed over; members differ with the number of nodes."""
    return [(p.channel, p.verb, p.partner, p.sent_bytes) for s in steps for p in s if isinstance(p, Post)]


def served_by(steps):
    return [p.server_seconds for s in steps for p in s if isinstance(p, Post)]


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("ssgd", {}),
        ("hsgd", {}),
        ("ps_sgd", {"servers": "one", "pipelined": False}),
        ("ps_sgd", {}),
        ("hylo", {}),
        ("sign_sgd", {"rule": "two_sided"}),
        ("gossip", {"graph": "ring"}),
    ],
)
def test_workers_of_any_number_of_nodes_call_what_those_that_are_mirrored_there_call(method, options):
    made = CellWithoutData(cell_of(method, **options), 2, DEVICE)
    cell = cell_of(method, **options)
    small = replace(cell, recipe=cell.recipe.model_copy(update={"batch": 2}))
    derived = made._schedules.on(5, 2)
    load = partial(stand_ins.small_task, stand_ins.Network(small))
    clock = DeviceClock(load_accelerator(DEVICE))
    mirrored = MirroredCell(small, Path(), Cluster(10, 5), load, clock)
    for role, run in mirrored.roles(2):
        for worker in role.workers:
            own, wanted = derived.steps[derived.role_of[worker]], run.steps[1:]
            assert calls_of(own) == calls_of(wanted)
            # So do their servers, to the nanosecond in which the clock counts.
            assert served_by(own) == pytest.approx(served_by(wanted), abs=1e-8)
    # On one node, channels between nodes have one member.
    assert made.on(CLUSTER, 1).seconds >= made.on(CLUSTER, 1).compute_seconds > 0


def test_layers_take_the_images_of_the_cell_and_not_those_that_were_mirrored(ssgd):
    cell, device = cell_of("ssgd"), load_accelerator(DEVICE)
    # 3x3 filters on 32x32 and 16x16 pixels, and a linear layer after 8x8 pixels; forward, and both gradients.
    flops = 3 * 256 * 2 * (32 * 32 * 9 * 3 * 8 + 16 * 16 * 9 * 8 * 16 + 8 * 8 * 16 * 10)
    least = flops / max(device.convolution_flops_per_second, device.product_flops_per_second)
    assert least < ssgd.on(CLUSTER, 4).compute_seconds
    # Small images are bound by what it takes to start an operation; large batches of them are not.
    many = replace(cell, recipe=cell.recipe.model_copy(update={"batch": 100 * cell.recipe.batch}))
    more = CellWithoutData(many, 4, DEVICE).on(CLUSTER, 4).compute_seconds
    assert more > max(100 * least, 2 * ssgd.on(CLUSTER, 4).compute_seconds)


def test_the_more_workers_the_longer_decoding_what_they_gathered_and_never_cheaper_than_a_mean(ssgd):
    made = CellWithoutData(cell_of("top_k", density=0.01), 4, DEVICE)
    computing = [made.on(CLUSTER, nodes).compute_seconds for nodes in (2, 4, 8)]
    assert computing[2] - computing[1] == pytest.approx(2 * (computing[1] - computing[0]))
    assert computing[0] > ssgd.on(CLUSTER, 2).compute_seconds


def test_a_network_of_text_and_one_whose_weights_depend_on_its_images_keep_their_weights():
    text = next(c for c in cells("text_demo") if c.method.label == "ssgd")
    images = replace(cell_of("ssgd"), model=Module("alexnet", "alexnet", {"width": 4}))
    for cell in (text, images):
        made = CellWithoutData(cell, 1, DEVICE)
        sent = sum(sent for *_, sent in calls_of(made._schedules.on(2, 1).steps[0]))
        assert sent == pytest.approx(4 * stand_ins.weights(cell), rel=0.01)


def test_slower_links_and_more_nodes_never_make_a_step_shorter(ssgd):
    slow, slower = CLUSTER.at_rates([0.1, 0.01])
    seconds = [ssgd.on(linked, 4).seconds for linked in (CLUSTER, slow, slower)]
    assert seconds == sorted(seconds)
    assert ssgd.on(slower, 16).seconds > ssgd.on(slower, 2).seconds
    assert 0 < ssgd.on(slow, 4).exposed_share < ssgd.on(slower, 4).exposed_share < 1
    # It is the same every time.
    again = CellWithoutData(cell_of("ssgd"), 4, DEVICE)
    assert again.on(CLUSTER, 4) == ssgd.on(CLUSTER, 4)


def test_a_step_at_a_pace_computes_longer():
    made = CellWithoutData(cell_of("ssgd", overlap=False), 4, DEVICE)
    first, second = np.diff(made.at_paces(CLUSTER, 2, np.array([1.0, 2.0, 4.0])))
    assert second == pytest.approx(2 * first)
    # All but what fits into the wait for the last bytes.
    assert 0.99 < first / made.on(CLUSTER, 2).compute_seconds < 1 + 1e-9


def test_the_rate_is_found_within_a_percent_and_the_ends_of_the_range_are_answers():
    assert 2 / 1.01 <= highest_rate(lambda rate: 1 / rate, 0.5, 0.01, 100) <= 2
    assert highest_rate(lambda rate: 0.5, 0.5, 0.01, 100) == 100
    assert highest_rate(lambda rate: 0.4, 0.5, 0.01, 100) is None


DESCRIBED = hardware.load_cluster(RATIO_CLUSTER)
COMPUTE = 0.25


@dataclass
class Rung:
    """Computes, and then sends these bytes for each node but one."""

    sent: float

    def on(self, cluster, nodes):
        return MeanStep(self.at_paces(cluster, nodes, 1.0), COMPUTE)

    def at_paces(self, cluster, nodes, paces):
        return COMPUTE * paces + self.sent * (nodes - 1) / cluster.link.rate_bytes_per_second


def ratios_of(**options):
    return pd.DataFrame(ratios(Rung(1e9), Rung(1e7), DESCRIBED, **options))


def test_the_ratio_by_hand_of_every_number_of_nodes_rate_and_time_of_computing():
    """At 8 Gbit/s the lowest rung sends for a second to each node but one, the highest for a hundredth."""
    rows = ratios_of(nodes=(2, 4), rates=(0.8, 8.0), compute=(0.5, 1.0))
    for row in rows.itertuples():
        sends = (row.nodes - 1) * 8 / row.rate_gbit_per_second
        lowest, highest = row.compute_seconds + sends, row.compute_seconds + sends / 100
        assert (row.lowest_rung_seconds, row.ratio) == pytest.approx((lowest, lowest / highest))
    assert len(rows) == 8
    # The rate of the cluster itself is possible.
    own = DESCRIBED.link.rate_bits_per_second / 1e9
    assert list(ratios_of(nodes=(2,), rates=(own,), compute=(1.0,)).rate_gbit_per_second) == [own]


def test_a_ratio_that_passes_no_level_is_drawn_without_lines(tmp_path):
    rows = ratios_of(rates=(50.0, 100.0), compute=(10.0, 30.0), nodes=(2,))
    assert rows.ratio.max() < 2
    shown.write_hsgd_ratio(rows, tmp_path)
    assert (tmp_path / "figures/hsgd_ratio.png").exists()


def test_the_ends_of_the_ladder_have_the_network_of_the_other_suite(monkeypatch):
    made = []
    monkeypatch.setattr(without_data, "CellWithoutData", lambda cell, *_: made.append(cell))
    ladder_ratio.ends_of_the_ladder(4)
    assert [cell.method.label for cell in made] == ["n0_naive", "n6_hsgd"]
    assert {(cell.model.label, cell.recipe.batch_per_worker(4)) for cell in made} == {("resnet50", 256)}
