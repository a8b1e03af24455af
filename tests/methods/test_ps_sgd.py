"""SSGD on parameter servers: what is pushed and pulled, and where the servers stand."""

import pytest
import torch

from tests import small


def run_of(servers, workers=4, nodes=1):
    run = small.trainer(small.task(workers, nodes, dtype=torch.float32), "ps_sgd", servers=servers)
    run.train()
    return run


@pytest.mark.parametrize("servers", ["spread", "one"])
def test_every_worker_pushes_and_pulls_the_model_once_a_step(servers):
    run = run_of(servers)
    size = 4 * sum(weight.numel() for weight in run.workers[0].run.weights)
    for worker in run.workers:
        total = worker.ledger.total()
        assert total.payload_push == total.payload_pull == run.total_steps * size
        assert worker.ledger.rows["world", "push", "values"].payload_pull == 0
        assert worker.ledger.rows["world", "pull", "weights"].payload_push == 0


def test_one_server_is_the_bottleneck_that_spreading_removes():
    one, spread = (run_of(servers) for servers in ("one", "spread"))
    size = 4 * sum(weight.numel() for weight in one.workers[0].run.weights) * one.total_steps
    received = [worker.ledger.total().wire_received for worker in one.workers]
    assert received == [3 * size, size, size, size]  # everybody's pushes; the pulls of the others
    busiest = max(worker.ledger.total().wire_sent for worker in spread.workers)
    assert busiest < 3 * size


@pytest.mark.parametrize("servers", ["spread", "one"])
def test_only_the_servers_own_worker_keeps_their_state(servers):
    run = run_of(servers)
    keepers = {
        index: [rank for rank, worker in enumerate(run.workers) if worker.method.memory[index]]
        for index in run.workers[0].method.memory
    }
    for index, ranks in keepers.items():
        assert ranks == [int(index) % 4 if servers == "spread" else 0]


def test_replicas_are_the_servers_weights_bit_for_bit():
    run = run_of("spread", workers=3)
    for worker in run.workers:
        for index, weight in enumerate(worker.run.weights):
            kept = run.workers[index % 3].method.memory[str(index)]["weight"]
            assert torch.equal(weight, kept)
