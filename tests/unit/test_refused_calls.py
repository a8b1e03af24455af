"""Calls on channels that are refused, and the turns of workers in one process."""

import gc
import weakref
from functools import partial

import pytest
import torch
from greenlet import getcurrent

from tests.unit.channels import Echo, Me, Sum, floats
from thinwire.api.flight import Flight
from thinwire.base.errors import MethodError
from thinwire.base.placement import Cluster
from thinwire.transport.call import Server
from thinwire.transport.inprocess import InProcess, let_others_run


class World:
    """Workers in one process."""

    def __init__(self, workers, nodes=1):
        self.transport, cluster = InProcess(workers), Cluster(workers, nodes)
        self.mes = [Me(rank, cluster, self.transport) for rank in range(workers)]

    def together(self, turn):
        return self.transport.together([lambda me=me: turn(me.rank, me.world) for me in self.mes])


@pytest.fixture
def me():
    return World(4, 2).mes[1]


class Marked(torch.Tensor):
    """Of a class of its own."""


NOT_FLAT = {
    r"values of shape \[0, 7\] were handed to .*: hand over tensor.flatten\(\)": torch.empty(0, 7),
    r"values of shape \[3, 1\] were handed to": torch.ones(3, 1),
    r"values of shape \[\] were handed to": torch.tensor(1.0),
    r"values of type torch.complex64 .* view them as torch.uint8": torch.zeros(2, dtype=torch.complex64),
    r"values that are sparse": torch.ones(3).to_sparse(),
    r"values that are sparse or have no elements": torch.ones(3, device="meta"),
    r"a Marked was handed to .*: hand over a torch.Tensor": torch.ones(3).as_subclass(Marked),
    r"a float was handed to": 1.0,
}


@pytest.mark.parametrize("words", NOT_FLAT)
def test_payloads_that_carry_more_than_their_elements_are_refused(me, words):
    payload = {"values": NOT_FLAT[words]}
    for verb, call in {
        "gather": partial(me.world.gather, payload, ragged=True),
        "push_pull": partial(me.world.push_pull, 0, payload, Echo({})),
        "send": partial(me.world.send, payload, to=0),
    }.items():
        with pytest.raises(MethodError, match=words) as refused:
            call()
        assert f"run.world.{verb}" in str(refused.value)
    assert me.ledger.rows == {}


def test_tensors_of_a_class_of_their_own_and_unknown_kinds_are_refused(me):
    for call in (me.world.mean, me.unmetered.mean, partial(me.world.broadcast, source=0)):
        with pytest.raises(MethodError, match="a Marked was handed to"):
            call([torch.ones(3).as_subclass(Marked)])
    with pytest.raises(MethodError, match="'gradients'"):
        me.world.mean([torch.ones(1)], kind="gradients")
    with pytest.raises(MethodError, match="'gradients'"):
        me.world.gather({"gradients": torch.ones(1)})


class Calling(Server):
    """Makes a call of its own, where it should only answer."""

    def __init__(self, me):
        super().__init__({})
        self.me = me

    def update(self, pushes):
        for channel in (self.me.world, self.me.unmetered):
            with pytest.raises(MethodError, match="mean was called in a server's update: a server answers"):
                channel.mean([torch.ones(1)])
        with pytest.raises(MethodError, match="receive was called in a server's update"):
            self.me.world.receive(source=0)
        return {}


def test_a_server_makes_no_calls():
    world = World(2)
    for key in (0, 1):
        assert world.together(
            lambda rank, c, key=key: c.push_pull(key, {}, Calling(world.mes[rank])).wait()
        ) == [{}, {}]
    world.together(lambda rank, c: c.mean([torch.ones(1)]).wait())


def test_a_closed_channel_refuses_calls(me):
    me.world.shut = "at night"
    calls = {
        "mean": lambda: me.world.mean([torch.ones(1)]),
        "gather": lambda: me.world.gather({}),
        "broadcast": lambda: me.world.broadcast([], source=0),
        "push_pull": lambda: me.world.push_pull(0, {}, Echo({})),
        "send": lambda: me.world.send({}, to=0),
        "receive": lambda: me.world.receive(source=0),
    }
    for verb, call in calls.items():
        with pytest.raises(MethodError, match=f"run.world.{verb} was called at night"):
            call()


@pytest.mark.parametrize("name", ["world", "node", "across", "unmetered"])
def test_what_is_no_rank_of_the_channel_is_refused(me, name):
    """Also -1, which Python would take for the last worker: the ledgers would count no sender."""
    channel = getattr(me, name)
    for rank in (-1, channel.size, 0.0, True, None):
        for verb, call in {
            "broadcast": partial(channel.broadcast, [floats(1)], source=rank),
            "send": partial(channel.send, {"values": floats(1)}, to=rank),
            "receive": partial(channel.receive, source=rank),
        }.items():
            problem = rf"run\.{name}\.{verb} was called with \w+={rank}: .* to {channel.size - 1}$"
            with pytest.raises(MethodError, match=problem):
                call()
    with pytest.raises(MethodError, match=r"push_pull was called with key=1\.5: pass an int or a str"):
        channel.push_pull(1.5, {"values": floats(1)}, Sum({}))
    assert me.ledger.rows == {}


@pytest.mark.parametrize(
    ("other", "words"),
    [(torch.ones(2), "say ragged=True"), (torch.ones(1).half(), "the same kinds in the same order")],
)
def test_payloads_that_do_not_match_are_refused(other, words):
    payloads = [{"values": torch.ones(1)}, {"values": other}]
    with pytest.raises(MethodError, match=words):
        World(2).together(lambda rank, c: c.gather(payloads[rank]).wait())
    with pytest.raises(MethodError, match=words):
        World(2).together(lambda rank, c: c.push_pull(0, payloads[rank], Echo({})).wait())


def test_an_answer_that_is_not_flat_is_refused():
    class Square(Server):
        def update(self, pushes):
            return {"weights": torch.ones(2, 2)}

    words = r"weights of shape \[2, 2\] were handed to the workers by Square.update"
    with pytest.raises(MethodError, match=words):
        World(2).together(lambda rank, c: c.push_pull(0, {}, Square({})).wait())


def test_an_answer_whose_sizes_the_receivers_cannot_know_is_refused():
    """Between GPUs, sizes travel with the first answer only, unless it is ragged."""

    class Growing(Server):
        def update(self, pushes):
            self.memory["length"] = self.memory.get("length", 0) + 1
            return {"weights": torch.ones(self.memory["length"])}

    def twice(rank, c, key, pushed, ragged=False):
        server = Growing({})
        for number in range(2):
            payload = {"values": torch.ones(pushed[number])}
            answer = c.push_pull(key[number], payload, server, ragged).wait()
        return len(answer["weights"])

    words = r"Growing.update has answered .*\[2\] to key '0', and .*\[1\] to equal pushes before: say ragged"
    with pytest.raises(MethodError, match=words):
        World(2).together(partial(twice, key=(0, 0), pushed=(3, 3)))
    assert World(2).together(partial(twice, key=(0, 2), pushed=(3, 3))) == [2, 2]
    assert World(2).together(partial(twice, key=(0, 0), pushed=(3, 4))) == [2, 2]
    assert World(2).together(partial(twice, key=(0, 0), pushed=(3, 3), ragged=True)) == [2, 2]


def test_a_mean_after_a_call_of_another_channel_is_refused(me):
    pending = me.world.mean([floats(1)])
    with pytest.raises(MethodError, match=r"run\.node\.mean was called after a call of another channel"):
        me.node.mean([floats(1)], after=[pending])


def test_parts_that_do_not_fit_the_members_are_refused(me):
    for parts in ([floats(1)], [floats(1)] * 5, [*[floats(1)] * 3, floats(1).double()]):
        with pytest.raises(MethodError, match=f"with {len(parts)} parts: pass one for each of the 4 members"):
            me.world.reduce_scatter(parts)
    assert me.ledger.rows == {}


def test_catching_a_failed_call_does_not_help_a_worker():
    """A refusal tells something about the other workers, which would be unmetered communication."""
    world = World(2)

    def turn(rank, channel):
        try:
            channel.mean([torch.ones(2 + rank)])
        except MethodError:
            return "caught"

    assert world.together(turn) == [None, "caught"]
    with pytest.raises(MethodError, match=r"call 1 on run.world does not agree.*rank 1"):
        world.transport.check_settled()


def test_messages_that_nobody_receives_and_workers_that_wait_for_ever_are_named():
    world = World(2)
    world.together(lambda r, c: c.send({"values": torch.ones(1)}, 1).wait() if r == 0 else None)
    with pytest.raises(MethodError, match="rank 0 sent 1 messages to rank 1"):
        world.transport.check_settled()
    world = World(3)
    with pytest.raises(MethodError, match=r"ranks \[0, 1\] called mean.*, and ranks \[2\] did not$"):
        world.together(lambda r, c: c.mean([torch.ones(1)]).wait() if r < 2 else None)


def test_taking_one_message_leaves_the_others_in_flight():
    flight = Flight()
    for number in range(3):
        flight.launch(None, lands=number, number=number)
    assert next(flight.landed(1)).note == {"number": 0}
    assert len(flight) == 2
    assert [landing.note["number"] for landing in flight.landed(5)] == [1, 2]


class Worker:
    """What a turn belongs to."""


def test_results_are_in_the_order_of_the_workers_and_greenlets_are_used_again():
    transport = InProcess(3)
    first = transport.together([getcurrent] * 3)
    assert len(set(first)) == 3
    assert transport.together([getcurrent] * 3) == first


def test_an_idle_greenlet_keeps_no_worker_and_no_result():
    transport = InProcess(2)
    workers = [Worker(), Worker()]
    alive = weakref.WeakSet(workers)
    transport.together([lambda w=w: w for w in workers])
    del workers
    gc.collect()
    assert not alive
    # A transport that nobody uses is freed with its greenlets.
    alive = weakref.WeakSet([transport, *transport.together([getcurrent] * 2)])
    assert len(alive) == 3
    del transport
    gc.collect()
    assert not alive


def test_turns_after_an_error_begin_anew():
    transport = InProcess(2)

    def interrupted() -> str:
        let_others_run()
        return "continued"

    def failing() -> str:
        raise ValueError("failed")

    with pytest.raises(ValueError, match="failed"):
        transport.together([interrupted, failing])
    assert transport.together([lambda: 0, lambda: 1]) == [0, 1]
    assert transport.together([lambda: 2, lambda: 3]) == [2, 3]
