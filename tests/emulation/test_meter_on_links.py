"""What `thinwire.meter` counts of a program of torch.distributed, and what gloo sends over emulated links."""

import pytest
import torch
import torch.distributed as dist

import thinwire
from tests.emulation.conftest import on_all_nodes
from tests.processes import apart
from thinwire.base.placement import Placement, SharedFile
from thinwire.emulation.emulated_run import bytes_sent
from thinwire.emulation.network import INTERFACE
from thinwire.traffic.wire_bytes import payload_rate
from thinwire.transport import rendezvous

pytestmark = pytest.mark.slow

WORKERS = 4
BYTES = 4_000_000  # of the whole tensor, of which each worker has or gets a quarter
ROOT = 1
CALLS = {
    "all_reduce": lambda whole, part: dist.all_reduce(whole),
    "all_gather": lambda whole, part: dist.all_gather(list(whole.chunk(WORKERS)), part),
    "all_gather_single": lambda whole, part: dist.all_gather_single(whole, part),
    "reduce_scatter": lambda whole, part: dist.reduce_scatter_single(part, whole),
    "broadcast": lambda whole, part: dist.broadcast(whole, ROOT),
    "scatter": lambda whole, part: dist.scatter(part, parts_at_root(whole), ROOT),
}
# Where gloo's algorithm is not that of the formula: how much of the whole tensor each worker sends.
IN_GLOO = {
    "reduce_scatter": [1.5] * WORKERS,  # an all-reduce, of which the worker keeps its part
    "broadcast": [0, 2, 1, 0],  # a tree: rank 1 to 2, then 1 to 3 and 2 to 0
}


def parts_at_root(whole):
    return list(whole.chunk(WORKERS)) if dist.get_rank() == ROOT else None


def of_worker(made, rank, file):
    """The bytes that it counts, and those that its link carries, in each call."""
    made.enter(rank)
    rendezvous.join(Placement(rank, WORKERS, rank, "here", "test", SharedFile(file, INTERFACE)), 300)
    whole, part = torch.ones(BYTES // 4), torch.ones(BYTES // 4 // WORKERS)
    found = {}
    for name, call in CALLS.items():
        dist.barrier()
        before = bytes_sent()
        with thinwire.meter(nodes=range(WORKERS)) as counted:
            call(whole, part)
        dist.barrier()
        found[name] = [int(counted.table.between_nodes.sum()), bytes_sent() - before]
    dist.destroy_process_group()
    return found


@pytest.fixture(scope="module")
def found(emulable):
    answers = apart(on_all_nodes, WORKERS, of_worker)
    failed = [answer for answer in answers if isinstance(answer, str)]
    assert not failed, failed[0]
    return answers


@pytest.mark.parametrize("name", CALLS)
def test_links_carry_what_is_counted_or_what_the_documentation_says(found, name):
    """In full frames; within 3 % of the whole tensor, in which barriers and acknowledgements are."""
    counted = [of_rank[name][0] for of_rank in found]
    carried = [payload_rate(of_rank[name][1]) for of_rank in found]
    sent = [share * BYTES for share in IN_GLOO[name]] if name in IN_GLOO else counted
    assert carried == pytest.approx(sent, abs=0.03 * BYTES)
    if name == "reduce_scatter":
        assert sum(sent) == 2 * sum(counted)
    else:
        assert sum(sent) == sum(counted)
