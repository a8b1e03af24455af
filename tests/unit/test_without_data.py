"""Cells that are simulated without their data, on any number of nodes."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from thinwire.base.placement import Cluster
from thinwire.config import clusters
from thinwire.config.expand import cells
from thinwire.config.yaml_file import Module
from thinwire.simulation import without_data
from thinwire.simulation.mirrored import MirroredCell
from thinwire.simulation.operations import Compute, Post
from thinwire.simulation.without_data import CellWithoutData

CLUSTER, PROFILE = clusters.load_cluster("infiniband_800g_4gpus"), "a100_tf32"
SMALL = Module("cnn", "cnn", {"width": 8})


def cell_of(method, **options):
    first = next(c for c in cells("claims/daso_time") if c.method.label == "ssgd")
    return replace(first, model=SMALL, method=Module(method, method, options))


@pytest.fixture(scope="module")
def ssgd():
    return CellWithoutData(cell_of("ssgd"), 4, PROFILE)


def calls_of(steps):
    """What is handed over; members differ with the number of nodes."""
    return [(p.channel, p.verb, p.partner, p.sent_bytes) for s in steps for p in s if isinstance(p, Post)]


@pytest.mark.parametrize(
    ("method", "options"),
    [("ssgd", {}), ("hsgd", {}), ("ps_sgd", {"servers": "one", "pipelined": False})],
)
def test_workers_of_more_nodes_call_what_those_of_two_nodes_call(method, options):
    made = CellWithoutData(cell_of(method, **options), 4, PROFILE)
    cell = cell_of(method, **options)
    small = replace(cell, recipe=cell.recipe.model_copy(update={"batch": 2}))
    more = MirroredCell(small, Path(), Cluster(16, 4), without_data._task)
    for role, run in more.roles(2):
        for worker in role.workers:
            steps = made._steps[made._role_at[made._place(worker)]]
            assert calls_of(steps) == calls_of(run.steps[1:])


def test_it_is_the_same_every_time(ssgd):
    again = CellWithoutData(cell_of("ssgd"), 4, PROFILE)
    assert again.on(CLUSTER, 4) == ssgd.on(CLUSTER, 4)


def test_layers_take_the_images_of_the_cell_and_not_those_that_were_mirrored(ssgd):
    forward = without_data.layer_flops(cell_of("ssgd"))
    least = 3 * 256 * sum(forward.values()) / 23.0e12
    seconds = ssgd.on(CLUSTER, 4).compute_seconds
    assert least < seconds < least + 1e-5 * sum(isinstance(o, Compute) for o in ssgd._steps[0][0]) + 1e-9


def test_slower_links_and_more_nodes_never_make_a_step_shorter(ssgd):
    slow, slower = CLUSTER.at_rates([0.1, 0.01])
    seconds = [ssgd.on(linked, 4).seconds for linked in (CLUSTER, slow, slower)]
    assert seconds == sorted(seconds)
    assert ssgd.on(slower, 16).seconds > ssgd.on(slower, 2).seconds
    assert 0 < ssgd.on(slow, 4).exposed_share < ssgd.on(slower, 4).exposed_share < 1


def test_a_step_at_a_pace_computes_longer():
    made = CellWithoutData(cell_of("ssgd", overlap=False), 4, PROFILE)
    first, second = np.diff(made.at_paces(CLUSTER, 2, np.array([1.0, 2.0, 4.0])))
    assert second == pytest.approx(2 * first)
    # All but what fits into the wait for the last bytes.
    assert 0.99 * made.on(CLUSTER, 2).compute_seconds < first <= made.on(CLUSTER, 2).compute_seconds
