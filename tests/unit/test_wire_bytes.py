"""Byte formulas of the collectives, exact."""

import pytest

from thinwire.traffic import wire_bytes

NODES = [
    (0,),
    (0, 0),
    (0, 1),
    (0, 0, 0),
    (0, 0, 1, 1),
    (0, 0, 0, 1, 1, 1, 2, 2, 2),
    (0, 1, 2, 3, 4),
]


@pytest.mark.parametrize("nodes", NODES)
@pytest.mark.parametrize("nbytes", [0, 1, 7, 4096, 123_457])
def test_all_reduce_sends_two_n_minus_one_over_n_in_all(nodes, nbytes):
    each = [wire_bytes.all_reduce(rank, nodes, nbytes) for rank in range(len(nodes))]
    assert sum(w.sent for w in each) == 2 * (len(nodes) - 1) * nbytes
    assert [w.sent for w in each] == [w.received for w in each[1:] + each[:1]]


# By hand, on two nodes: what each of three workers sends, receives, and sends to the other node.
BY_HAND = [
    (wire_bytes.all_reduce, (48,), [(64, 64, 0), (64, 64, 64), (64, 64, 64)]),
    (wire_bytes.all_gather, ([100, 0, 25],), [(125, 25, 0), (100, 125, 100), (25, 100, 25)]),
    (wire_bytes.broadcast, (48, 1), [(48, 48, 48), (48, 0, 0), (0, 48, 0)]),
    (wire_bytes.push, ([10, 20, 30], 1), [(10, 0, 0), (0, 40, 0), (30, 0, 30)]),
    (wire_bytes.pull, (100, 1), [(0, 100, 0), (200, 0, 100), (0, 100, 0)]),
    (wire_bytes.pull, (100, 2), [(0, 100, 0), (0, 100, 0), (200, 0, 200)]),
]


@pytest.mark.parametrize(("collective", "arguments", "expected"), BY_HAND)
def test_the_bytes_of_each_worker(collective, arguments, expected):
    assert [collective(rank, (0, 0, 1), *arguments) for rank in range(3)] == expected


@pytest.mark.parametrize("nodes", NODES)
def test_a_broadcast_crosses_to_every_other_node_once_whoever_begins(nodes):
    for source in range(len(nodes)):
        each = [wire_bytes.broadcast(rank, nodes, 100, source) for rank in range(len(nodes))]
        assert sum(w.between_nodes for w in each) == 100 * (len(set(nodes)) - 1)
        assert sum(w.sent for w in each) == sum(w.received for w in each) == 100 * (len(nodes) - 1)
        assert each[source].received == 0


@pytest.mark.parametrize("nodes", NODES)
def test_a_reduction_is_a_broadcast_backwards(nodes):
    for root in range(len(nodes)):
        each = range(len(nodes))
        there = [wire_bytes.reduce(rank, nodes, 100, root) for rank in each]
        back = [wire_bytes.broadcast(rank, nodes, 100, root) for rank in each]
        assert [(wire.sent, wire.received) for wire in there] == [(wire.received, wire.sent) for wire in back]
        assert sum(wire.between_nodes for wire in there) == sum(wire.between_nodes for wire in back)
