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
    assert sum(w.received for w in each) == 2 * (len(nodes) - 1) * nbytes


def test_what_one_sends_the_next_receives():
    nodes, nbytes = (0, 0, 1, 1, 2), 1003
    for rank in range(5):
        following = (rank + 1) % 5
        assert wire_bytes.all_reduce(rank, nodes, nbytes).sent == (
            wire_bytes.all_reduce(following, nodes, nbytes).received
        )
        each = [10, 0, 7, 300, 5]
        assert wire_bytes.all_gather(rank, nodes, each).sent == (
            wire_bytes.all_gather(following, nodes, each).received
        )


def test_a_ring_crosses_each_node_boundary_once():
    nodes = (0, 0, 0, 1, 1, 1)
    crossing = [wire_bytes.all_reduce(rank, nodes, 6000).between_nodes for rank in range(6)]
    assert crossing == [0, 0, 10_000, 0, 0, 10_000]


def test_hierarchical_all_reduce_sends_two_p_minus_one_over_p_between_nodes():
    """One worker of each of 4 nodes: methods-level formula 2 (P-1)/P."""
    for rank in range(4):
        assert wire_bytes.all_reduce(rank, (0, 1, 2, 3), 4000).between_nodes == 6000


def test_all_gather_receives_what_the_others_gave():
    each = [100, 0, 25]
    assert [wire_bytes.all_gather(r, (0, 0, 0), each).received for r in range(3)] == [25, 125, 100]
    assert wire_bytes.all_gather(0, (0,), [100]) == (0, 0, 0)


@pytest.mark.parametrize("source", [0, 1, 3])
def test_broadcast_leaves_the_root_once_and_arrives_everywhere(source):
    each = [wire_bytes.broadcast(rank, (0, 0, 1, 1), 50, source) for rank in range(4)]
    assert each[source].sent == 50
    assert [w.received for w in each] == [0 if rank == source else 50 for rank in range(4)]
    assert sum(w.sent for w in each) == sum(w.received for w in each)


def test_the_link_of_a_server_carries_everybody_else():
    nodes, pushed = (0, 0, 1, 1), [10, 20, 30, 40]
    push = [wire_bytes.push(rank, nodes, pushed, server=1) for rank in range(4)]
    pull = [wire_bytes.pull(rank, nodes, 100, server=1) for rank in range(4)]
    assert [w.sent for w in push] == [10, 0, 30, 40]
    assert [w.received for w in push] == [0, 80, 0, 0]
    assert [w.between_nodes for w in push] == [0, 0, 30, 40]
    assert [w.sent for w in pull] == [0, 300, 0, 0]
    assert [w.received for w in pull] == [100, 0, 100, 100]
    assert [w.between_nodes for w in pull] == [0, 200, 0, 0]


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
