"""`thinwire.meter` counts the calls of any program, also those that DistributedDataParallel and FSDP make."""

import threading

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import thinwire
from tests import processes

NODES = [0, 0, 1]  # of three workers
BYTES = 48  # of twelve numbers
ROWS = [1, 2, 9]  # to each worker
# What each worker sends, receives, and sends to another node.
RING = [(64, 64, 0), (64, 64, 64), (64, 64, 64)]
GATHERED = [(96, 96, 0), (96, 96, 96), (96, 96, 96)]
PARTS = [(32, 32, 16), (32, 32, 16), (32, 32, 32)]
ROWS_SENT = [(44, 8, 36), (40, 16, 36), (12, 72, 12)]
# The chain from rank 1 goes over rank 0 to the other node.
FROM_1 = [(48, 48, 48), (48, 0, 0), (0, 48, 0)]
TO_1 = [(48, 48, 0), (0, 48, 0), (48, 0, 48)]
AROUND = [(48, 48, 0), (48, 48, 48), (48, 48, 48)]


def rows(count=12):
    return torch.ones(count)


def several(count=12):
    return [rows(count) for _ in NODES]


def at_root(tensors):
    return tensors if dist.get_rank() == 1 else None


def coalesced():
    with dist._coalescing_manager():
        dist.all_reduce(rows(6))
        dist.all_reduce(rows(6))


def around():
    rank = dist.get_rank()
    messages = [
        dist.P2POp(dist.isend, rows(), (rank + 1) % 3),
        dist.P2POp(dist.irecv, rows(), (rank + 2) % 3),
    ]
    for work in dist.batch_isend_irecv(messages):
        work.wait()


def to_next():
    """From rank 0 to 1."""
    if dist.get_rank() == 0:
        dist.send(rows(), 1)
    if dist.get_rank() == 1:
        dist.recv(rows())


def in_pair():
    if dist.get_rank() != 1:
        dist.all_reduce(rows(), group=PAIR[0])


PAIR = []
CALLS = [
    ("barrier", dist.barrier, [(0, 0, 0)] * 3),
    ("all_reduce", lambda: dist.all_reduce(rows()), RING),
    ("all_reduce", lambda: dist.all_reduce_coalesced(several(4)), RING),
    ("all_reduce", coalesced, RING),
    ("all_reduce", lambda: functional.all_reduce(rows(), "sum", dist.group.WORLD).wait(), RING),
    ("all_reduce", in_pair, [(BYTES, BYTES, BYTES), None, (BYTES, BYTES, BYTES)]),
    ("reduce", lambda: dist.reduce(rows(), 1), TO_1),
    ("broadcast", lambda: dist.broadcast(rows(), 1), FROM_1),
    ("broadcast", lambda: functional.broadcast(rows(), 1, dist.group.WORLD).wait(), FROM_1),
    ("all_gather", lambda: dist.all_gather(several(), rows()), GATHERED),
    ("all_gather", lambda: dist.all_gather_coalesced([several(4) for _ in NODES], several(4)), GATHERED),
    ("all_gather", lambda: dist.all_gather_into_tensor(rows(36), rows()), GATHERED),
    ("all_gather", lambda: functional.all_gather_tensor(rows(), 0, dist.group.WORLD).wait(), GATHERED),
    ("gather", lambda: dist.gather(rows(), at_root(several()), 1), [(48, 0, 0), (0, 96, 0), (48, 0, 48)]),
    ("scatter", lambda: dist.scatter(rows(), at_root(several()), 1), [(0, 48, 0), (96, 0, 48), (0, 48, 0)]),
    ("reduce_scatter", lambda: dist.reduce_scatter(rows(4), several(4)), PARTS),
    ("reduce_scatter", lambda: dist.reduce_scatter_tensor(rows(4), rows()), PARTS),
    ("all_to_all", lambda: dist.all_to_all(several(4), several(4)), PARTS),
    ("all_to_all", lambda: dist.all_to_all_single(rows(), rows()), PARTS),
    (
        "all_to_all",
        lambda: dist.all_to_all_single(
            rows(3 * ROWS[dist.get_rank()]), rows(), [ROWS[dist.get_rank()]] * 3, ROWS
        ),
        ROWS_SENT,
    ),
    ("send", to_next, [(BYTES, 0, 0), None, None]),
    ("receive", to_next, [None, (0, BYTES, 0), None]),
    ("send", around, [(sent, 0, between) for sent, _, between in AROUND]),
    ("receive", around, [(0, received, 0) for _, received, _ in AROUND]),
]


def counted(do):
    """The calls and the bytes by collective and group."""
    with thinwire.meter(nodes=NODES) as meter:
        do()
    return {(row.collective, row.group): tuple(row)[3:] for row in meter.table.itertuples()}


def all_calls():
    PAIR.append(dist.new_group([0, 2]))
    return [counted(do) for _, do, _ in CALLS]


def step_of_ddp():
    model = DistributedDataParallel(torch.nn.Linear(11, 1))
    return counted(lambda: model(torch.ones(1, 11)).sum().backward())


def step_of_fsdp():
    model = fully_shard(torch.nn.Linear(3, 4, bias=False))

    def step():
        model(torch.ones(1, 3)).sum().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)

    return counted(step)


def sent_objects():
    return counted(lambda: dist.all_gather_object([None] * 3, "one"))


def refusals():
    """What is said of calls that are not counted; nothing is sent."""
    said = []
    for do in (
        lambda: dist.all_reduce(rows().to_sparse()),
        lambda: torch.ops._c10d_functional.isend(rows(), 0, 0, dist.group.WORLD.group_name),
    ):
        with pytest.raises(thinwire.UserError) as raised:
            counted(do)
        said.append(str(raised.value).partition(": it counts")[0])
    return said


FUNCTIONS = [all_calls, step_of_ddp, step_of_fsdp, sent_objects, refusals]


@pytest.fixture(scope="module")
def found():
    """What each function returns, by rank."""
    outcomes = processes.run_all(FUNCTIONS, 3)
    return {function.__name__: outcome for function, outcome in zip(FUNCTIONS, outcomes)}


@pytest.mark.slow
def test_each_call_is_counted_by_its_formula(found):
    for number, (collective, do, expected) in enumerate(CALLS):
        key = collective, (0, 2) if do is in_pair else (0, 1, 2)
        expected = [None if bytes_ is None else (1, *bytes_) for bytes_ in expected]
        assert [of_rank[number].get(key) for of_rank in found["all_calls"]] == expected, (number, collective)


@pytest.mark.slow
def test_so_are_calls_that_torch_makes_for_a_program(found):
    world = (0, 1, 2)
    assert found["step_of_ddp"] == [{("all_reduce", world): (1, *ring)} for ring in RING]
    # The weight has 4 rows, so a shard has 2, of 12 bytes each, one of them for padding where it has only 1.
    for rank, table in enumerate(found["step_of_fsdp"]):
        assert table["all_gather", world] == (1, 48, 48, 0 if rank == 0 else 48)
        assert table["reduce_scatter", world][:3] == (1, 48, 48)
        assert table["all_reduce", world][0] == 1  # of the norm
    assert found["sent_objects"][0]["all_gather", world][0] == 2  # sizes, then the objects


@pytest.mark.slow
def test_what_is_not_counted_is_refused(found):
    assert found["refusals"][0] == [
        "thinwire.meter cannot count c10d::allreduce_ of sparse tensors",
        "thinwire.meter cannot count _c10d_functional::isend",
    ]


def on_a_thread_of_a_device():
    """Whether autograd makes a call on the thread of an accelerator, and how often it is counted."""
    from tests import accelerator

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    threads = []

    def hook(gradient):
        threads.append(threading.get_ident())
        dist.all_reduce(rows())
        return gradient

    weight = torch.ones(2).to(accelerator.DEVICE).requires_grad_()
    weight.register_hook(hook)
    with thinwire.meter() as meter:
        weight.sum().backward()
    dist.destroy_process_group()
    return threads != [threading.get_ident()], meter.table.calls.tolist()


@pytest.mark.slow
def test_autograd_passes_the_meter_on_to_the_threads_of_devices():
    assert processes.apart(on_a_thread_of_a_device) == (True, [1])
