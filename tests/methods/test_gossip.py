"""Gossip: peers are those of the graph, the mean of all weights stays, and a peer costs 4 n bytes."""

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


@pytest.mark.parametrize("workers", [4, 8])
def test_on_a_power_of_two_one_round_of_the_exponential_graph_is_the_mean(workers):
    product = torch.eye(workers, dtype=torch.float64)
    for exchange in range(workers.bit_length() - 1):
        product = mixing(peers_of(workers, "exponential", exchange)) @ product
    assert torch.equal(product, torch.full_like(product, 1 / workers))


def test_random_pairs_are_others_at_every_exchange():
    drawn = []

    def look(run):
        drawn.append([worker.method.peers(0)[0][0] for worker in run.workers])

    small.trainer(small.task(6), "gossip", graph="random_pairs").train(after_step=look)
    assert len({tuple(partners) for partners in drawn}) > 5
    assert all(partners[partners[i]] == i for partners in drawn for i in range(6))


@pytest.mark.parametrize("graph", GRAPHS)
def test_an_exchange_keeps_the_mean_and_brings_weights_together(graph):
    run = small.trainer(small.task(4), "gossip", graph=graph, period=3)
    stepped = {}
    for rank, worker in enumerate(run.workers):
        sync = worker.method.sync_weights

        def noting(rank=rank, worker=worker, sync=sync):
            stepped[rank] = small.flat(worker.run.weights)
            sync()

        worker.method.sync_weights = noting

    def look(run):
        before = torch.stack([stepped[rank] for rank in range(4)])
        after = torch.stack([small.flat(worker.run.weights) for worker in run.workers])
        if run.step % 3:
            assert torch.equal(after, before)
        else:
            torch.testing.assert_close(after.mean(0), before.mean(0), rtol=0, atol=1e-14)
            assert (after - after.mean(0)).norm() < 0.95 * (before - before.mean(0)).norm()

    run.train(until=14, after_step=look)
    assert run.step == 14


@pytest.mark.parametrize("graph", GRAPHS)
def test_two_workers_are_ssgd_on_every_graph(graph):
    run = small.trainer(small.task(2), "gossip", graph=graph)
    ssgd = small.trainer(small.task(2), "ssgd")
    for step in range(1, run.total_steps + 1):
        for each in (run, ssgd):
            each.train(until=step)
        differs = small.flat(run.shipped()[0]) - small.flat(ssgd.shipped()[0])
        assert differs.abs().max() < 1e-11


@pytest.mark.parametrize(("graph", "peers"), [("exponential", 1), ("ring", 2), ("random_pairs", 1)])
@pytest.mark.parametrize(("workers", "nodes", "period"), [(4, 1, 1), (6, 2, 4)])
def test_bytes_are_those_of_the_weights_for_each_peer_and_of_one_mean(graph, peers, workers, nodes, period):
    run = small.trainer(small.task(workers, nodes, torch.float32), "gossip", graph=graph, period=period)
    run.train()
    size = 4 * sum(weight.numel() for weight in run.workers[0].run.weights)
    exchanges = run.total_steps // period
    for worker in run.workers:
        total = worker.ledger.total()
        assert total.payload_push == total.payload_pull == size * (peers * exchanges + 1)
        wire = peers * exchanges + 2 * (workers - 1) / workers
        assert total.wire_sent == pytest.approx(size * wire, abs=8)
        assert total.wire_received == pytest.approx(size * wire, abs=8)
    weights = [small.flat(worker.run.weights) for worker in run.workers]
    assert all(torch.equal(weights[0], other) for other in weights)


def test_a_complete_graph_has_no_mean_at_the_end_if_no_steps_are_left_over():
    for period, means in ((1, 15), (5, 3), (4, 4)):
        run = small.trainer(small.task(3), "gossip", graph="complete", period=period)
        run.train()
        (row,) = run.workers[0].ledger.rows.values()
        assert row.messages == means
