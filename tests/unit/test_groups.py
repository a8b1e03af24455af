"""Nodes that stand for others: fewer workers are simulated, with the same timeline to the bit."""

from dataclasses import fields, replace

import numpy as np
import pytest

from tests.unit.test_simulation import call, described
from thinwire.base.placement import Cluster
from thinwire.simulation import timeline
from thinwire.simulation.call_seconds import Loads
from thinwire.simulation.calls_on_links import standing_for
from thinwire.simulation.program import Await, Hold, Work, group_of, groups_on

CLUSTER, STEPS = Cluster(24, 8), 3
VERBS = ("mean", "gather", "ragged gather", "broadcast", "push_pull")


def drawn(stream):
    """A program of random calls on all channels; each is waited for before or at the end."""
    sizes = {"world": CLUSTER.workers, "node": CLUSTER.workers_per_node, "across": CLUSTER.nodes}
    steps, number, open_calls = [], 0, []
    for _ in range(STEPS):
        step = []
        for _ in range(stream.integers(1, 6)):
            channel = str(stream.choice([*sizes]))
            partner, size = int(stream.integers(sizes[channel])), int(stream.choice([0, 8, 10**6]))
            made = call(str(stream.choice(VERBS)), channel, partner, size)
            step += [Work(float(stream.choice([1e-3, 2e-3]))), made]
            open_calls.append(number)
            number += 1
            while open_calls and stream.integers(2):
                step.append(Await(open_calls.pop(int(stream.integers(len(open_calls))))))
        steps.append(step)
    steps[-1] += [Await(own) for own in open_calls]
    return steps


def slower(program):
    """The same program on a slower worker."""
    return [
        [replace(op, seconds=2 * op.seconds) if isinstance(op, Work) else op for op in step]
        for step in program
    ]


def same(one, other):
    return all(np.array_equal(getattr(one, f.name), getattr(other, f.name)) for f in fields(one))


@pytest.mark.parametrize("shared", [True, False])
def test_nodes_that_stand_for_others_change_no_bit(shared, monkeypatch):
    stream, stood = np.random.default_rng(0), 0
    loads = Loads(described(link={"shared_by_workers": shared}), CLUSTER)
    for case in range(20):
        own = drawn(stream)
        programs, pace = [own] * CLUSTER.workers, np.ones((STEPS, CLUSTER.workers))
        if case % 3 == 1:  # a role for a worker of each node
            programs = [own, slower(own), own] * CLUSTER.nodes
        if case % 3 == 2:
            pace[:, -3:] = 1.5
        few = timeline.by_events(programs, CLUSTER, loads, pace)
        stood += len(np.unique(standing_for(programs, CLUSTER, loads, pace))) < CLUSTER.nodes
        with monkeypatch.context() as patch:
            patch.setattr(timeline, "standing_for", lambda *_: np.arange(CLUSTER.nodes))
            assert same(timeline.by_events(programs, CLUSTER, loads, pace), few), case
    assert stood > 10


@pytest.mark.parametrize(
    ("of_workers", "expected"),
    [
        ([[call("mean")]], [0, 1, 1, 1, 1, 1, 1, 1]),
        ([[call("push_pull", partner=10)]], [0, 1, 1, 3, 1, 1, 1, 1]),  # worker 10 is on node 3
        ([[call("push_pull", "node", 2)]], [0, 1, 1, 1, 1, 1, 1, 1]),
        ([[call("broadcast", "across", 4)]], [0, 1, 1, 3, 4, 1, 1, 1]),  # the chain ends on node 3
        ([[call("mean"), Hold(0), call("mean", "node")]], [*range(8)]),
        ([[call(size=8 + worker)] for worker in range(3)], [*range(8)]),  # one call of different sizes
    ],
)
def test_which_nodes_stand_for_others(of_workers, expected):
    programs = [[calls] for calls in of_workers] * (CLUSTER.workers // len(of_workers))
    found = standing_for(programs, CLUSTER, Loads(described(), CLUSTER), np.ones((1, CLUSTER.workers)))
    assert found.tolist() == expected


@pytest.mark.parametrize("cluster", [CLUSTER, Cluster(6), Cluster(5, 5)], ids=str)
def test_groups_are_those_of_the_cluster(cluster):
    for channel in cluster.groups(0):
        of_each = {cluster.groups(worker)[channel] for worker in range(cluster.workers)}
        assert [*map(tuple, groups_on(cluster, channel))] == sorted(of_each)
        for worker in range(cluster.workers):
            assert tuple(group_of(cluster, worker, channel)) == cluster.groups(worker)[channel]
