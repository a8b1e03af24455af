"""HSGD: its traffic inside nodes and between them."""

import pytest
import torch

from tests import small


def trained(name, workers, nodes, **options):
    run = small.trainer(small.task(workers, nodes, batch=24, dtype=torch.float32), name, **options)
    run.train()
    return run


@pytest.mark.parametrize(("workers", "nodes"), [(4, 2), (6, 3), (6, 2), (8, 4), (4, 4)])
def test_bytes_between_nodes_are_those_of_one_all_reduce_a_node(workers, nodes):
    run = trained("hsgd", workers, nodes)
    size = 4 * small.flat(run.workers[0].run.weights).numel()
    crossing = sum(worker.ledger.total().between_nodes for worker in run.workers)
    # A ring over the nodes: 2 (P - 1) / P of the gradient leaves each node, whatever its workers.
    assert crossing == run.total_steps * 2 * (nodes - 1) * size
    for worker in run.workers:
        across = worker.ledger.rows.get(("across", "mean", "values"))
        part = size / (workers // nodes)
        assert across.payload_push / run.total_steps == pytest.approx(part, abs=4)


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
@pytest.mark.parametrize(("workers", "nodes"), [(4, 2), (6, 3), (8, 4), (4, 4)])
def test_16_bit_gradients_are_two_bytes_an_entry_between_nodes_and_four_inside(workers, nodes, precision):
    half, full = (trained("hsgd", workers, nodes, gradients=how) for how in (precision, "full"))
    entries = small.flat(half.workers[0].run.weights).numel()
    crossing = sum(worker.ledger.total().between_nodes for worker in half.workers)
    assert crossing == half.total_steps * 2 * (nodes - 1) * 2 * entries
    for worker, other in zip(half.workers, full.workers):
        across = ("across", "mean", "values")
        assert 2 * worker.ledger.rows[across].payload_push == other.ledger.rows[across].payload_push
        inside = [{k: row for k, row in w.ledger.rows.items() if k != across} for w in (worker, other)]
        assert inside[0] == inside[1]


def test_on_one_node_nothing_is_cast():
    half, full = (trained("hsgd", 4, 1, gradients=how) for how in ("bfloat16", "full"))
    assert small.digest(half.shipped()[0]) == small.digest(full.shipped()[0])
    assert half.workers[1].ledger.state() == full.workers[1].ledger.state()


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_with_one_worker_a_node_16_bit_gradients_are_those_of_ssgd(precision):
    runs = [trained(name, 4, 4, gradients=precision) for name in ("hsgd", "ssgd")]
    assert small.digest(runs[0].shipped()[0]) == small.digest(runs[1].shipped()[0])
