"""Gossip: peers are those of the graph, and all weights count alike."""

import pytest
import torch

from tests import small

GRAPHS = ["exponential", "ring", "random_pairs"]


def peers_of(workers, graph, exchange):
    """Of each worker, to whom it sends and from whom it receives."""
    run = small.trainer(small.task(workers, batch=4 * workers), "gossip", graph=graph)
    return [worker.method.peers(exchange) for worker in run.workers]


def mixing(peers):
    """The matrix with which an exchange multiplies the workers' weights."""
    matrix = torch.zeros(len(peers), len(peers), dtype=torch.float64)
    for i, (_, sources) in enumerate(peers):
        matrix[i, [i, *sources]] = 1 / (1 + len(sources))
    return matrix


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 6, 8])
@pytest.mark.parametrize("graph", GRAPHS)
def test_each_message_has_a_receiver_and_all_weights_count_alike(graph, workers):
    for exchange in range(4):
        peers = peers_of(workers, graph, exchange)
        sent = {(i, j) for i, (targets, _) in enumerate(peers) for j in targets}
        assert sent == {(j, i) for i, (_, sources) in enumerate(peers) for j in sources}
        assert all(i != j for i, j in sent)
        for sums in (mixing(peers).sum(0), mixing(peers).sum(1)):
            torch.testing.assert_close(sums, torch.ones_like(sums))


def test_peers_are_those_of_the_formulas():
    of_one = [peers_of(6, "exponential", exchange)[1] for exchange in range(4)]
    assert of_one == [([2], [0]), ([3], [5]), ([5], [3]), ([2], [0])]
    assert peers_of(5, "ring", 7)[0] == ([1, 4], [1, 4])
    assert sum(targets == [] for targets, _ in peers_of(5, "random_pairs", 0)) == 1


def test_a_complete_graph_has_no_mean_at_the_end_if_no_steps_are_left_over():
    for period, means in ((1, 15), (5, 3), (4, 4)):
        run = small.trainer(small.task(3), "gossip", graph="complete", period=period)
        run.train()
        (row,) = run.workers[0].ledger.rows.values()
        assert row.messages == means
