"""`thinwire.meter` counts the calls of any program, also those that DistributedDataParallel makes."""

import pytest
import torch
import torch.distributed as dist

import thinwire
from tests import processes

BYTES = 4 * 12  # of each buffer


def everything():
    """Each call that is counted, on three workers, of whom the last is alone on its node."""
    rank, whole = dist.get_rank(), torch.ones(12)
    pair = dist.new_group([0, 2])
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(11, 1))
    with thinwire.meter(nodes=[0, 0, 1]) as counted:
        dist.all_reduce(whole)
        dist.broadcast(whole, 1)
        dist.all_gather([torch.empty(12) for _ in range(3)], whole)
        dist.all_gather_into_tensor(torch.empty(36), whole)
        dist.reduce_scatter_tensor(torch.empty(4), whole)
        dist.all_to_all_single(torch.empty(12), whole)
        if rank == 0:
            dist.send(whole, 2)
        if rank == 2:
            dist.recv(whole, 0)
        if rank != 1:
            dist.all_reduce(whole, group=pair)
        dist.barrier()
        model(torch.ones(1, 11)).sum().backward()
    return counted.table.to_dict("records")


@pytest.mark.slow
def test_all_calls_are_counted_by_collective_and_group():
    tables = processes.run(everything, 3)
    world, pair = (0, 1, 2), (0, 2)
    found = [
        {(row["collective"], row["group"]): tuple(row.values())[2:] for row in table} for table in tables
    ]
    # Twice: the program's, and that of the gradients, which are as large.
    ring = 2 * 2 * BYTES * 2 // 3
    assert [each["all_reduce", world] for each in found] == [
        (2, ring, ring, between) for between in (0, ring, ring)
    ]
    # A chain from rank 1 to 0, and from there to the other node.
    assert [each["broadcast", world][1:] for each in found] == [
        (BYTES, BYTES, BYTES),
        (BYTES, 0, 0),
        (0, BYTES, 0),
    ]
    gathered = 2 * 2 * BYTES
    assert found[0]["all_gather", world] == (2, gathered, gathered, 0)
    part = BYTES // 3
    for name in ("reduce_scatter", "all_to_all"):
        assert [each[name, world] for each in found] == [
            (1, 2 * part, 2 * part, between) for between in (part, part, 2 * part)
        ]
    assert found[0]["send", world] == (1, BYTES, 0, BYTES)
    assert found[2]["receive", world] == (1, 0, BYTES, 0)
    assert found[2]["all_reduce", pair] == (1, BYTES, BYTES, BYTES)
    assert ("all_reduce", pair) not in found[1]
