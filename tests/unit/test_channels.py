"""The verbs of the channels: what they give, what they meter, what they refuse.

Each function under `everywhere` is one worker's part of a test. Four workers run it on each transport: in one
process, in processes of one node (shared memory), and in processes of two nodes (torch.distributed).
Processes also run it on the path of GPUs. The ledgers must be the same on all transports.
"""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import pytest
import torch

from tests import processes
from thinwire.channel import Channel
from thinwire.errors import MethodError
from thinwire.messages_in_flight import Flight
from thinwire.parameter_server import Server
from thinwire.traffic.ledger import Ledger
from thinwire.traffic.payload import Payload
from thinwire.transport.inprocess import InProcess
from thinwire.transport.transport import Transport
from thinwire.unmetered_channel import QuietChannel
from thinwire.worker_placement import Cluster


class Me:
    """One worker and its channels."""

    def __init__(self, rank: int, cluster: Cluster, transport: Transport) -> None:
        self.rank, self.cluster, self.transport = rank, cluster, transport
        self.mates = list(cluster.world())
        self.ledger = Ledger()
        self.world, self.node, self.across = (
            self._channel(Channel, name) for name in ("world", "node", "across")
        )
        self.quiet = self._channel(QuietChannel, "quiet")

    def _channel(self, kind: type[Channel], name: str) -> Any:
        members = self.cluster.groups(self.rank)[name]
        nodes = tuple(self.cluster.node_of(member) for member in members)
        return kind(name, members, nodes, self.rank, self.transport, self.ledger)

    def rows(self) -> dict[tuple[str, str, str], tuple[int, int]]:
        return {key: (row.payload_push, row.payload_pull) for key, row in self.ledger.rows.items()}


Part = Callable[[Me], None]
PARTS: dict[str, Part] = {}


# NCCL needs one order of the calls on all channels.
NOT_BETWEEN_GPUS = "two_channels_may_be_called_in_another_order_by_each_worker"


def everywhere(part: Part) -> Part:
    """Register a part, which four workers will run on each transport."""
    PARTS[part.__name__] = part
    return part


def play_in_process(part: Part, cluster: Cluster) -> list[dict[str, list[int]]]:
    """The ledgers afterwards, by rank."""
    transport = InProcess(cluster.workers)
    mes = [Me(rank, cluster, transport) for rank in cluster.world()]
    transport.together([partial(part, me) for me in mes])
    transport.check_settled()
    return [me.ledger.state() for me in mes]


def play_here(part: str, cluster: Cluster) -> dict[str, list[int]]:
    """Run this process's part, and return its ledger afterwards."""
    transport = processes.transport(cluster)
    me = Me(transport.ranks[0], cluster, transport)
    with torch.no_grad():
        PARTS[part](me)
    transport.check_agreement()
    return me.ledger.state()


@cache
def played_in_processes(cluster: Cluster, like_gpus: bool) -> dict[str, Any]:
    """The outcomes of all parts, in one launch."""
    parts = [part for part in PARTS if not like_gpus or part != NOT_BETWEEN_GPUS]
    plays: list[Callable[..., Any]] = [partial(play_here, part) for part in parts]
    if like_gpus:
        plays = [partial(processes.on_device_group, play) for play in plays]
    return dict(zip(parts, processes.run_all(plays, cluster.workers, cluster)))


def floats(*numbers: float) -> torch.Tensor:
    return torch.tensor(numbers, dtype=torch.float32)


def same(tensor: torch.Tensor, *numbers: float) -> bool:
    return tensor.flatten().tolist() == list(numbers)


@everywhere
def the_mean_is_written_into_the_tensors_of_all_workers(me):
    tensor = torch.full((3,), float(me.rank))
    answer = me.world.mean([tensor]).wait()
    assert same(tensor, 1.5, 1.5, 1.5)
    assert answer[0] is tensor
    assert me.rows() == {("world", "mean", "values"): (12, 12)}


@everywhere
def means_of_nothing_and_of_empty_tensors_are_legal(me):
    assert me.world.mean([]).wait() == []
    empty, full = torch.zeros(0, 3), floats(me.rank)
    me.world.mean([empty]).wait()
    me.world.mean([empty, full]).wait()
    assert same(full, 1.5)
    assert me.ledger.total().payload_push == 4


@everywhere
def means_of_tensors_of_every_shape_and_several_types(me):
    tensors = [
        torch.tensor(float(me.rank)),
        torch.full((2, 3), 2.0 * me.rank, dtype=torch.float64),
        torch.full((2, 0), 1.0),
        torch.arange(6.0).reshape(2, 3).t() * me.rank,
        torch.full((4,), me.rank, dtype=torch.bfloat16)[::2],
        torch.full((3, 1), me.rank).half().expand(3, 1),
    ]
    me.world.mean(tensors).wait()
    assert same(tensors[0], 1.5)
    assert same(tensors[1], *[3.0] * 6)
    assert same(tensors[3], *(1.5 * n for n in (0, 3, 1, 4, 2, 5)))
    assert same(tensors[4], 1.5, 1.5)
    assert same(tensors[5], 1.5, 1.5, 1.5)
    assert me.rows() == {("world", "mean", "values"): (4 + 48 + 24 + 4 + 6,) * 2}


@everywhere
def a_tensor_between_its_neighbours_is_all_that_is_written(me):
    whole = torch.full((5, 2), float(me.rank))
    me.world.mean([whole[1:4, 1]]).wait()
    assert same(whole[:, 1], me.rank, 1.5, 1.5, 1.5, me.rank)
    assert same(whole[:, 0], *[me.rank] * 5)


@everywhere
def means_in_16_bits_do_not_overflow(me):
    large = torch.tensor([40_000.0, float(me.rank)], dtype=torch.float16)
    brain = torch.tensor([3e38, float(me.rank)], dtype=torch.bfloat16)
    me.world.mean([floats(1.0), large, brain]).wait()
    assert same(large, 40_000.0, 1.5)
    assert same(brain, torch.tensor(3e38, dtype=torch.bfloat16).item(), 1.5)


@everywhere
def a_mean_of_20_mb_and_smaller_ones_before_and_after(me):
    for size in (10, 300_000, 5_000_000, 7):
        tensor = torch.arange(size, dtype=torch.float32)
        tensor[-1] = me.rank
        me.world.mean([tensor]).wait()
        assert torch.equal(tensor[:-1], torch.arange(size - 1, dtype=torch.float32))
        assert tensor[-1] == 1.5


@everywhere
def gather_gives_the_payloads_of_all_workers_in_order(me):
    payload = {"values": floats(me.rank, me.rank), "indices": torch.tensor([me.rank], dtype=torch.int32)}
    gathered = me.world.gather(payload).wait()
    assert [int(payload["indices"]) for payload in gathered] == me.mates
    assert me.rows() == {("world", "gather", "values"): (8, 24), ("world", "gather", "indices"): (4, 12)}


PAYLOAD = {
    "values": torch.tensor([1.5, -2.0, 0.1, 7.0], dtype=torch.bfloat16),
    "indices": torch.arange(12).reshape(6, 2)[:, 1],
    "scales": torch.tensor([3.25], dtype=torch.float64),
    "sizes": torch.zeros(0, dtype=torch.int16),
    "weights": torch.tensor([True, False, True]),
    "buffers": torch.arange(7, dtype=torch.uint8)[::3],
    "control": torch.tensor([-1], dtype=torch.int8),
}


def is_payload(payload):
    return list(payload) == list(PAYLOAD) and all(
        payload[kind].dtype == tensor.dtype and torch.equal(payload[kind], tensor)
        for kind, tensor in PAYLOAD.items()
    )


class Echo(Server):
    """Answers with what the last worker has pushed."""

    def update(self, pushes):
        self.memory["asked"] = self.memory.get("asked", 0) + 1
        return pushes[-1]


@everywhere
def payloads_of_every_type_arrive_as_they_are(me):
    for ragged in (False, True):
        assert all(map(is_payload, me.world.gather(PAYLOAD, ragged).wait()))
        assert is_payload(me.world.push_pull(1, PAYLOAD, Echo({}), ragged).wait())
        me.world.send(PAYLOAD, (me.rank + 1) % 4, ragged)
        assert is_payload(me.world.receive((me.rank - 1) % 4).wait())
    # The same as non-contiguous tensors, with sizes only where it was said.
    assert me.rows()["world", "gather", "values"] == (16, 48)
    assert me.rows()["world", "gather", "sizes"] == (56, 168)


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


@everywhere
def payloads_that_carry_more_than_their_elements_are_refused(me):
    for words, tensor in NOT_FLAT.items():
        payload = {"values": tensor}
        for verb, call in {
            "gather": partial(me.world.gather, payload, ragged=True),
            "push_pull": partial(me.world.push_pull, 0, payload, Echo({})),
            "send": partial(me.world.send, payload, to=0),
        }.items():
            with pytest.raises(MethodError, match=words) as refused:
                call()
            assert f"run.world.{verb}" in str(refused.value)
    marked = [torch.ones(3).as_subclass(Marked)]
    for call in (me.world.mean, me.quiet.mean, partial(me.world.broadcast, source=0)):
        with pytest.raises(MethodError, match="a Marked was handed to"):
            call(marked)
    assert me.ledger.rows == {}


@everywhere
def only_the_elements_of_a_payload_arrive(me):
    """Attributes of the tensors that were passed do not arrive."""
    strided = torch.arange(7.0)[::7]
    hung = torch.nn.Parameter(torch.ones(3))
    hung.secret = me.rank
    grown = torch.ones(2, requires_grad=True)
    with torch.enable_grad():
        payload = {"values": strided, "weights": hung, "scales": grown * 2}
        for ragged in (False, True):
            answers = me.world.gather(payload, ragged).wait()
            answers.append(me.world.push_pull(1, payload, Echo({}), ragged).wait())
            me.world.send(payload, (me.rank + 1) % 4, ragged)
            answers.append(me.world.receive((me.rank - 1) % 4).wait())
            for answer in answers:
                assert [same(answer[kind], *payload[kind].tolist()) for kind in payload] == [True] * 3
                for tensor in answer.values():
                    assert type(tensor) is torch.Tensor
                    assert tensor.stride() == (1,)
                    assert not tensor.requires_grad
                    assert not vars(tensor)


class Calling(Server):
    """Makes a call of its own, where it should only answer."""

    def __init__(self, me):
        super().__init__({})
        self.me = me

    def update(self, pushes):
        for channel in (self.me.world, self.me.quiet):
            with pytest.raises(MethodError, match="mean was called in a server's update: a server answers"):
                channel.mean([torch.ones(1)])
        with pytest.raises(MethodError, match="receive was called in a server's update"):
            self.me.world.receive(source=0)
        return {}


@everywhere
def a_server_makes_no_calls(me):
    for key in me.mates:
        assert me.world.push_pull(key, {}, Calling(me)).wait() == {}
    me.world.mean([torch.ones(1)]).wait()


@everywhere
def a_closed_channel_refuses_calls(me):
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
    me.world.shut = ""
    me.world.mean([torch.ones(1)]).wait()


@everywhere
def no_payload_at_all_is_legal(me):
    for ragged in (False, True):
        assert me.world.gather({}, ragged).wait() == [{}] * 4
        assert me.world.push_pull(3, {}, Echo({}), ragged).wait() == {}
        me.world.send({}, (me.rank + 1) % 4, ragged)
        assert me.world.receive((me.rank - 1) % 4).wait() == {}
    assert me.ledger.total().payload_push == 0


@everywhere
def ragged_and_empty_payloads_are_sent_with_their_sizes(me):
    gathered = me.world.gather({"values": torch.ones(me.rank)}, ragged=True).wait()
    assert [len(payload["values"]) for payload in gathered] == me.mates
    own, all_ = 4 * me.rank, 4 * sum(me.mates)
    assert me.rows() == {
        ("world", "gather", "values"): (own, all_ - own),
        ("world", "gather", "sizes"): (8, 24),
    }


@everywhere
def ragged_payloads_of_20_mb_beside_tiny_ones(me):
    for large in me.mates:
        size = 5_000_000 if me.rank == large else me.rank
        gathered = me.world.gather({"values": torch.full((size,), float(me.rank))}, ragged=True).wait()
        for rank, payload in enumerate(gathered):
            wanted = 5_000_000 if rank == large else rank
            assert torch.equal(payload["values"], torch.full((wanted,), float(rank)))


@everywhere
def broadcasts_give_all_workers_the_sources_tensors(me):
    for source in me.mates:
        tensors = [
            torch.full((2, 2), float(me.rank)).t(),
            torch.tensor(me.rank),
            torch.tensor([me.rank % 2 == 0, True]),
            torch.zeros(0, dtype=torch.float64),
        ]
        me.world.broadcast(tensors, source).wait()
        assert same(tensors[0], *[source] * 4)
        assert tensors[1] == source
        assert tensors[2].tolist() == [source % 2 == 0, True]
    me.world.broadcast([], source=0).wait()
    assert me.rows() == {("world", "broadcast", "weights"): (26, 3 * 26)}


class Sum(Server):
    def update(self, pushes):
        self.memory["asked"] = self.memory.get("asked", 0) + 1
        return {"weights": sum(push["values"] for push in pushes)}


@everywhere
def a_server_answers_all_and_lives_on_one_worker(me):
    server = Sum({})
    answer = me.world.push_pull(6, {"values": floats(me.rank, 1.0)}, server).wait()
    assert same(answer["weights"], 6.0, 4.0)
    assert server.memory == ({"asked": 1} if me.rank == 2 else {})
    assert me.rows() == {("world", "push", "values"): (8, 0), ("world", "pull", "weights"): (0, 8)}
    total = me.ledger.total()
    assert (total.wire_received, total.wire_sent) == ((24, 24) if me.rank == 2 else (8, 8))


@everywhere
def servers_on_all_workers_answer_at_once_and_in_any_order(me):
    """Every worker has pushed to all servers before it waits for the first of them."""
    server = Sum({})
    keys = [*range(8), "a name"]
    pending = [me.world.push_pull(key, {"values": floats(me.rank, i)}, server) for i, key in enumerate(keys)]
    for i, one in reversed(list(enumerate(pending))):
        assert same(one.wait()["weights"], 6.0, 4.0 * i)
    home = sum(b"a name") % 4
    assert server.memory["asked"] == 2 + (me.rank == home)


@everywhere
def a_server_may_go_on_with_what_it_answered(me):
    class Counting(Server):
        def update(self, pushes):
            state = self.memory.setdefault("sum", torch.zeros(1))
            state.add_(sum(push["values"] for push in pushes))
            return {"weights": state}

    server = Counting({})
    pending = [me.world.push_pull(0, {"values": torch.ones(1)}, server) for _ in range(3)]
    pending[-1].wait()
    assert [float(one.wait()["weights"]) for one in pending] == [4, 8, 12]


@everywhere
def a_server_may_keep_what_was_pushed(me):
    class Keeping(Server):
        def update(self, pushes):
            self.memory.setdefault("pushed", []).append(pushes)
            return {"weights": torch.cat([p["values"] for pushes in self.memory["pushed"] for p in pushes])}

    server = Keeping({})
    for step in range(3):
        push = floats(10 * step + me.rank)
        answer = me.world.push_pull(0, {"values": push}, server).wait()
        push.fill_(-1.0)
    assert same(answer["weights"], *(10 * step + rank for step in range(3) for rank in me.mates))


@everywhere
def messages_reach_the_next_worker_in_any_order_of_calls(me):
    coming = me.world.receive((me.rank - 1) % 4)
    me.world.send({"values": floats(me.rank)}, (me.rank + 1) % 4).wait()
    assert same(coming.wait()["values"], (me.rank - 1) % 4)
    me.world.send({"values": floats(me.rank)}, (me.rank + 1) % 4).wait()
    assert same(me.world.receive((me.rank - 1) % 4).wait()["values"], (me.rank - 1) % 4)
    assert me.rows() == {("world", "send", "values"): (8, 0), ("world", "receive", "values"): (0, 8)}


@everywhere
def messages_arrive_in_the_order_in_which_they_were_sent(me):
    """Their answers may be read in another order."""
    for number in range(5):
        for to in me.mates:
            me.world.send({"values": torch.full((number,), 10.0 * me.rank + number)}, to, ragged=True)
    pending = {(n, source): me.world.receive(source) for n in range(5) for source in me.mates}
    for (number, source), one in reversed(pending.items()):
        assert same(one.wait()["values"], *[10.0 * source + number] * number)


@everywhere
def a_ring_of_20_mb(me):
    coming = me.world.receive((me.rank - 1) % 4)
    me.world.send({"values": torch.full((5_000_000,), float(me.rank))}, (me.rank + 1) % 4)
    assert torch.equal(coming.wait()["values"], torch.full((5_000_000,), float((me.rank - 1) % 4)))


@everywhere
def what_a_worker_sends_to_itself_costs_nothing(me):
    own = torch.ones(3)
    me.world.send({"values": own}, to=me.rank).wait()
    own.fill_(-1)
    assert same(me.world.receive(source=me.rank).wait()["values"], 1, 1, 1)
    assert not me.ledger.rows


@everywhere
def several_calls_may_be_in_flight_at_once(me):
    tensors = [floats(me.rank), floats(2 * me.rank), floats(me.rank)]
    pending = [
        me.world.mean([tensors[0]]),
        me.world.gather({"values": floats(me.rank)}),
        me.world.mean([tensors[1]], kind="weights"),
        me.world.push_pull(2, {"values": floats(me.rank)}, Sum({})),
        me.world.gather({"values": torch.ones(me.rank)}, ragged=True),
        me.world.broadcast([tensors[2]], source=3),
        me.quiet.mean([floats(me.rank)]),
    ]
    answers = [one.wait() for one in reversed(pending)][::-1]
    assert (same(tensors[0], 1.5), same(tensors[1], 3), same(tensors[2], 3)) == (True, True, True)
    assert [float(payload["values"]) for payload in answers[1]] == me.mates
    assert same(answers[3]["weights"], 6)
    assert [len(payload["values"]) for payload in answers[4]] == me.mates
    assert same(answers[6][0], 1.5)


@everywhere
def two_channels_may_be_called_in_another_order_by_each_worker(me):
    channels = [me.world, me.node, me.across]
    order = [channels[(i + me.rank) % 3] for i in range(3)]
    tensors = {id(channel): floats(me.rank) for channel in order}
    for pending in [channel.mean([tensors[id(channel)]]) for channel in order]:
        pending.wait()
    for channel, name in zip(channels, ("world", "node", "across")):
        members = me.cluster.groups(me.rank)[name]
        assert same(tensors[id(channel)], sum(members) / len(members))


@everywhere
def arguments_may_be_changed_after_the_wait(me):
    """As on a network, the others read what was sent, not later changes."""
    for ragged in (False, True):
        own = floats(me.rank, me.rank)
        payloads = me.world.gather({"weights": own}, ragged).wait()
        own.fill_(-1.0)
        assert [float(payload["weights"][0]) for payload in payloads] == me.mates
    message = floats(me.rank, me.rank)
    me.world.send({"weights": message}, to=(me.rank + 1) % 4).wait()
    message.fill_(-1.0)
    assert same(me.world.receive(source=(me.rank - 1) % 4).wait()["weights"], *[(me.rank - 1) % 4] * 2)


@everywhere
def later_calls_do_not_change_earlier_answers(me):
    first = me.world.gather({"values": floats(me.rank)}).wait()
    ragged = me.world.gather({"values": floats(me.rank)}, ragged=True).wait()
    served = me.world.push_pull(1, {"values": floats(me.rank)}, Sum({})).wait()
    for _ in range(3):
        me.world.gather({"values": floats(-1)}).wait()
        me.world.gather({"values": floats(-1)}, ragged=True).wait()
        me.world.push_pull(1, {"values": floats(-1)}, Sum({})).wait()
        me.world.mean([floats(-1, -1, -1, -1)]).wait()
    for payloads in (first, ragged):
        assert [float(payload["values"]) for payload in payloads] == me.mates
    assert same(served["weights"], 6)


@everywhere
def the_quiet_channel_meters_nothing_and_leaves_its_arguments(me):
    tensor = floats(me.rank, me.rank)
    (mean,) = me.quiet.mean([tensor]).wait()
    assert same(mean, 1.5, 1.5)
    assert same(tensor, me.rank, me.rank)
    me.quiet.gather({"values": tensor}, ragged=True).wait()
    me.quiet.broadcast([tensor], source=1).wait()
    me.quiet.push_pull(0, {"values": tensor}, Sum({})).wait()
    assert me.ledger.rows == {}


@everywhere
def a_group_of_one_sends_nothing(me):
    channel = next((c for c in (me.node, me.across) if c.size == 1), None)
    if channel is None:
        return
    tensor = floats(me.rank)
    channel.mean([tensor]).wait()
    channel.broadcast([tensor], source=0).wait()
    (alone,) = channel.gather({"values": tensor}).wait()
    served = channel.push_pull(5, {"values": tensor}, Sum({})).wait()
    channel.send({"values": tensor}, to=0)
    got = channel.receive(source=0).wait()
    assert same(tensor, me.rank)
    for answer in (alone["values"], served["weights"], got["values"]):
        assert same(answer, me.rank)
    assert me.ledger.rows == {}


@everywhere
def messages_in_flight_arrive_at_their_step(me):
    tensor, flight = floats(me.rank), Flight()
    flight.launch(me.world.mean([tensor]), lands=3, sent_at=1)
    assert not me.world.unclaimed
    assert list(flight.landed(2)) == []
    saved = flight.state()
    (landing,) = flight.landed(3)
    assert same(landing.answer[0], 1.5)
    assert landing.note == {"sent_at": 1}
    assert len(flight) == 0
    again = Flight()
    again.load(saved)
    (landing,) = again.landed(3)
    assert same(landing.answer[0], 1.5)


@everywhere
def sizes_that_the_receiver_cannot_know_are_metered(me):
    """8 bytes a kind, for pushes, answers and messages as well as for gathered payloads."""

    class Five(Server):
        def update(self, pushes):
            return {"weights": torch.ones(5)}

    payload = {"values": torch.ones(me.rank + 1)}
    me.world.push_pull(0, payload, Five({}), ragged=True).wait()
    me.world.send(payload, to=(me.rank + 1) % 4, ragged=True).wait()
    me.world.receive(source=(me.rank - 1) % 4).wait()
    rows = me.rows()
    assert [rows["world", verb, "sizes"] for verb in ("push", "pull", "send", "receive")] == [
        (8, 0),
        (0, 8),
        (8, 0),
        (0, 8),
    ]


@everywhere
def an_unknown_kind_is_refused(me):
    with pytest.raises(MethodError, match="'gradients'"):
        me.world.mean([torch.ones(1)], kind="gradients")
    with pytest.raises(MethodError, match="'gradients'"):
        me.world.gather({"gradients": torch.ones(1)})


@everywhere
def what_is_no_rank_of_the_channel_is_refused(me):
    """Also -1, which Python would take for the last worker: the ledgers would count no sender."""
    payload: Payload = {"values": floats(1)}
    for channel in (me.world, me.node, me.across, me.quiet):
        for rank in (-1, channel.size, 0.0, True, None):
            for verb, call in {
                "broadcast": partial(channel.broadcast, [floats(1)], source=rank),
                "send": partial(channel.send, payload, to=rank),
                "receive": partial(channel.receive, source=rank),
            }.items():
                problem = (
                    rf"run\.{channel.name}\.{verb} was called with \w+={rank}: .* to {channel.size - 1}$"
                )
                with pytest.raises(MethodError, match=problem):
                    call()
        with pytest.raises(MethodError, match=r"push_pull was called with key=1\.5: pass an int or a str"):
            channel.push_pull(1.5, payload, Sum({}))
    assert me.ledger.rows == {}


CLUSTERS = [pytest.param(Cluster(4), id="on_one_node"), pytest.param(Cluster(4, 2), id="on_two_nodes")]


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("part", PARTS)
def test_in_one_process(part, cluster):
    play_in_process(PARTS[part], cluster)


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("like_gpus", [False, True])
@pytest.mark.parametrize("part", PARTS)
def test_in_processes(part, like_gpus, cluster):
    if like_gpus and part == NOT_BETWEEN_GPUS:
        pytest.skip("NCCL needs one order of the calls on all channels")
    ledgers = played_in_processes(cluster, like_gpus)[part]
    if isinstance(ledgers, processes.Failed):
        raise ledgers
    assert ledgers == play_in_process(PARTS[part], cluster)


class World:
    """Workers in one process, for what only this transport detects."""

    def __init__(self, workers):
        self.transport = InProcess(workers)
        self.mes = [Me(rank, Cluster(workers), self.transport) for rank in range(workers)]

    def together(self, turn):
        return self.transport.together([lambda me=me: turn(me.rank, me.world) for me in self.mes])


def test_payloads_of_different_sizes_must_be_declared():
    world = World(2)
    with pytest.raises(MethodError, match="ragged=True"):
        world.together(lambda rank, c: c.gather({"values": torch.ones(rank + 1)}).wait())
    with pytest.raises(MethodError, match="say ragged=True"):
        World(2).together(lambda rank, c: c.push_pull(0, {"values": torch.ones(rank)}, Echo({})).wait())


DIFFERENT = {
    "kinds": ({"values": torch.ones(2)}, {"scales": torch.ones(2)}),
    "number of kinds": ({"values": torch.ones(2)}, {"values": torch.ones(2), "scales": torch.ones(0)}),
    "order": (
        {"values": torch.ones(2), "scales": torch.ones(2)},
        {"scales": torch.ones(2), "values": torch.ones(2)},
    ),
    "types": ({"values": torch.ones(2)}, {"values": torch.ones(2, dtype=torch.int32)}),
}


@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("what", DIFFERENT)
def test_payloads_that_differ_in_more_than_their_sizes_are_refused(what, ragged):
    payloads = DIFFERENT[what]
    with pytest.raises(MethodError, match=r"rank 0 hands over values float32.*, and rank 1 "):
        World(2).together(lambda rank, c: c.gather(payloads[rank], ragged).wait())
    with pytest.raises(MethodError, match="hand over the same kinds in the same order and of the same types"):
        World(2).together(lambda rank, c: c.push_pull(0, payloads[rank], Echo({}), ragged).wait())


def test_an_answer_that_is_not_flat_is_refused():
    class Square(Server):
        def update(self, pushes):
            return {"weights": torch.ones(2, 2)}

    with pytest.raises(
        MethodError, match=r"weights of shape \[2, 2\] were handed to the workers by Square.update"
    ):
        World(2).together(lambda rank, c: c.push_pull(0, {}, Square({})).wait())


def test_catching_a_failed_call_does_not_help_a_worker():
    """A refusal tells something about the other workers, which would be unmetered communication."""
    world = World(2)

    def turn(rank, channel):
        try:
            channel.mean([torch.ones(2 + rank)])
        except MethodError:
            return "caught"

    assert world.together(turn) == [None, "caught"]
    with pytest.raises(MethodError, match=r"call 1 on run.world does not agree"):
        world.transport.check_settled()


def test_a_message_that_nobody_receives_is_named():
    world = World(2)
    world.together(lambda r, c: c.send({"values": torch.ones(1)}, 1).wait() if r == 0 else None)
    with pytest.raises(MethodError, match="rank 0 sent 1 messages to rank 1"):
        world.transport.check_settled()


def test_workers_that_do_not_agree_are_named():
    world = World(2)
    with pytest.raises(MethodError, match=r"call 1 on run.world does not agree.*rank 1"):
        world.together(lambda r, c: (c.mean([torch.ones(2 + r)])).wait())


def test_workers_that_wait_for_ever_are_named():
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
