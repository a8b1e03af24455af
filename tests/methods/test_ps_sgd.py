"""SSGD on parameter servers: when is pushed and pulled, and where the servers stand."""

import pytest
import torch

from tests import small
from thinwire.simulation.program import Post, Wait, steps_of
from thinwire.train.tracing import record_spans


def run_of(servers, workers=4, nodes=1, **options):
    task = small.task(workers, nodes, dtype=torch.float32)
    run = small.trainer(task, "ps_sgd", servers=servers, **options)
    run.train()
    return run


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


@pytest.mark.parametrize("servers", ["spread", "one"])
def test_without_pipelining_every_bit_and_every_byte_stay(servers):
    naive, pipelined = (run_of(servers, nodes=2, pipelined=on) for on in (False, True))
    for worker, other in zip(naive.workers, pipelined.workers):
        assert small.digest(worker.run.weights) == small.digest(other.run.weights)
        assert worker.ledger.total() == other.ledger.total()
        assert worker.ledger.rows == other.ledger.rows


def test_without_pipelining_each_push_is_waited_for_and_then_each_pull():
    run = small.trainer(small.task(3, dtype=torch.float32), "ps_sgd", pipelined=False)
    recorders = record_spans(run)
    run.train(until=1)
    (step,) = steps_of(recorders[1])
    calls = [operation for operation in step if isinstance(operation, Post | Wait)]
    sizes = [4 * weight.numel() for weight in run.workers[1].run.weights]
    posts, waits = calls[::2], calls[1::2]
    assert [(post.sent_bytes, post.received_bytes) for post in posts] == [
        *((size, 0) for size in sizes),
        *((0, size) for size in sizes),
    ]
    assert [wait.call for wait in waits] == [post.call for post in posts]


def test_with_pipelining_a_tensor_is_one_call_and_all_are_made_before_any_is_waited_for():
    run = small.trainer(small.task(3), "ps_sgd")
    recorders = record_spans(run)
    run.train(until=1)
    (step,) = steps_of(recorders[1])
    calls = [type(operation) for operation in step if isinstance(operation, Post | Wait)]
    assert calls == [Post] * len(run.workers[1].run.params) + [Wait] * len(run.workers[1].run.params)
