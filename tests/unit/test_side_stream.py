"""Calls between GPUs run beside the worker's stream, which waits only for answers."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist

from tests.fake_gpu import CUDA, Stream
from tests.unit.channels import Echo
from thinwire.base.placement import Cluster
from thinwire.traffic.wire_bytes import Ledger
from thinwire.transport import messages, nccl
from thinwire.transport.call import Call, Group, Together
from thinwire.transport.device import SideStream
from thinwire.transport.flat_tensors import PartMean
from thinwire.transport.nccl import OnDeviceGroup


class Issuing(Executor):
    """The thread that issues the calls: it comes to them when the test says so."""

    def __init__(self) -> None:
        self._calls: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._calls.append((future, function))
        return future

    def issue_all(self) -> None:
        for future, function in self._calls:
            future.set_result(function())
        self._calls.clear()


@pytest.fixture
def issuing():
    return Issuing()


def submit(stream, exchange):
    return stream.submit(Call("gather"), exchange)


def test_a_call_begins_when_the_worker_has_computed_what_it_hands_over(gpu, issuing):
    stream = SideStream(CUDA, issuing)
    gpu.put(5)
    began = []
    wait = submit(stream, lambda: (began.append(gpu.current.until), gpu.put(2)))
    gpu.put(10)
    issuing.issue_all()
    assert began == [5], "after what was in the worker's stream, and not after what came later"
    wait()
    assert gpu.current.until == 15
    assert gpu.host == 0, "the host has waited for nothing"


def test_calls_of_all_channels_are_issued_in_one_order_and_a_slow_one_delays_no_other(gpu, issuing):
    across, node = SideStream(CUDA, issuing), SideStream(CUDA, issuing)
    slow = submit(across, lambda: gpu.put(100))
    quick = submit(node, lambda: gpu.put(1))
    issuing.issue_all()
    assert gpu.current.until == 0, "the worker computes on"
    quick()
    assert gpu.current.until == 1
    slow()
    assert gpu.current.until == 100
    issued = []
    for number, stream in enumerate((across, node, across)):
        submit(stream, lambda number=number: issued.append(number))
    assert issued == []
    issuing.issue_all()
    assert issued == [0, 1, 2]


def test_the_allocator_learns_which_answers_the_worker_uses(gpu, issuing):
    used_by = []
    tensor = SimpleNamespace(device=CUDA, record_stream=used_by.append)
    SideStream(CUDA, issuing).hand_over([tensor, torch.ones(1)])
    assert used_by == [gpu.current]


@pytest.fixture
def verbs(gpu, issuing):
    """Of the first of two workers."""
    process_group = SimpleNamespace(rank=lambda: 0, size=lambda: 2)
    return OnDeviceGroup(process_group, torch.device("cpu"), SideStream(CUDA, issuing))


@pytest.fixture
def world():
    return Group("world", tuple(Cluster(2).world()), (0, 0), 0, Ledger())


OWN, OTHERS = {"values": torch.full((4,), 1.0)}, {"values": torch.full((4,), 2.0)}


def seen(gpu, payloads):
    """What the worker's stream reads in its turn, and what a stream reads that waits for nothing."""
    found = {}

    def read(name):
        found[name] = [payload["values"].tolist() for payload in payloads]

    gpu.put(0, effect=lambda: read("in order"))
    gpu.put(0, Stream(), effect=lambda: read("at once"))
    gpu.compute(10)
    return found["in order"], found["at once"]


@pytest.fixture
def exchanges(gpu, monkeypatch):
    """What goes over the network, by the first of two workers; the other one hands over `OTHERS`.

    It changes data only when a stream has come to it, seconds after it was issued. Sends and receives run in
    a stream of NCCL's own, for which the call must wait. Headers come at once, because the host reads them.
    """
    made = []
    header, body = messages.pack(OTHERS, ragged=False)

    def all_gather(rows, row, group):
        if row.dtype == header.dtype:
            made.append("headers")
            rows.copy_(torch.cat([row, *[header] * (len(row) // len(header))]))
        else:
            gpu.put(4, effect=lambda: rows.copy_(torch.cat([row, body])))

    def transfer(ops):
        made.append([op.__name__ for op, _ in ops])
        own = Stream(until=gpu.current.until)
        for op, tensor in ops:
            if op is dist.irecv:
                gpu.put(4, own, effect=partial(tensor.copy_, body))
        return [SimpleNamespace(wait=lambda: gpu.current.wait_event(own.until))]

    monkeypatch.setattr(dist, "P2POp", lambda op, tensor, group_peer, group: (op, tensor))
    monkeypatch.setattr(dist, "batch_isend_irecv", transfer)
    monkeypatch.setattr(nccl, "_all_gather_single", all_gather)
    monkeypatch.setattr(nccl, "_reduce_scatter_single", lambda *_, group: made.append("reduce-scatter"))
    return made


def test_gathered_payloads_are_there_when_the_worker_reads_them(gpu, issuing, verbs, world, exchanges):
    wait = verbs.gather(world, Call("gather", payload=OWN), 0)
    issuing.issue_all()
    in_order, at_once = seen(gpu, wait())
    assert in_order == [[1.0] * 4, [2.0] * 4]
    assert at_once != in_order


def test_the_answer_of_a_server_is_there_when_the_worker_reads_it(gpu, issuing, verbs, world, exchanges):
    wait = verbs.push_pull(world, Call("push_pull", payload=OWN, partner=1), 0)
    issuing.issue_all()
    in_order, at_once = seen(gpu, [wait()])
    assert in_order == [[2.0] * 4]
    assert at_once != in_order
    assert exchanges == [["isend"], "headers", ["irecv"]]


def post(verbs, world, issuing, together, servers):
    """Post calls with these keys, wait for all, and return the answers."""
    waits = []
    for place, (key, server) in enumerate(servers.items()):
        call = Call("push_pull", payload=OWN, partner=key % 2, key=str(key), server=server)
        call.together, call.place = together, place
        together.calls.append(call)
        waits.append(verbs.push_pull(world, call, place))
    together.close()
    issuing.issue_all()
    return [wait() for wait in waits]


def test_pushes_of_a_series_take_one_exchange_and_sizes_of_answers_travel_once(
    exchanges, verbs, world, issuing
):
    servers = {key: Echo({}) for key in range(3)}
    both_ways = [["irecv", "isend", "irecv"], ["isend", "irecv", "isend"]]
    post(verbs, world, issuing, Together(), servers)
    assert exchanges == [both_ways[0], "headers", both_ways[1]]
    for _ in range(2):
        exchanges.clear()
        post(verbs, world, issuing, Together(), servers)
        assert exchanges == both_ways


def test_a_reduce_scatter_is_one_exchange_and_the_allocator_learns_of_the_mean(
    exchanges, verbs, world, issuing, monkeypatch
):
    handed = []
    monkeypatch.setattr(SideStream, "hand_over", lambda stream, tensors: handed.extend(tensors))
    servers = {0: PartMean(), 1: PartMean()}
    assert post(verbs, world, issuing, Together(reduces=True), servers) == [{}, {}]
    assert exchanges == ["reduce-scatter"]
    assert [tensor is servers[0].mean for tensor in handed] == [True]
