"""The five verbs of the channels in process: what they give, what they meter, what they refuse."""

import pytest
import torch

from thinwire.channel import Channel, Flight, QuietChannel
from thinwire.cluster import Cluster
from thinwire.errors import MethodError
from thinwire.method import Server
from thinwire.traffic.ledger import Ledger
from thinwire.transport.inprocess import InProcess


class World:
    """The channels of W workers on N nodes."""

    def __init__(self, workers, nodes=1, kind=Channel):
        cluster = Cluster(workers, nodes)
        self.transport = InProcess(workers)
        self.ledgers = [Ledger() for _ in range(workers)]
        self.world = [
            kind(
                "world",
                cluster.world(),
                tuple(cluster.node_of(w) for w in cluster.world()),
                rank,
                self.transport,
                self.ledgers[rank],
            )
            for rank in range(workers)
        ]

    def together(self, turn):
        return self.transport.together([lambda r=r, c=c: turn(r, c) for r, c in enumerate(self.world)])

    def rows(self, rank):
        return {key: (row.payload_push, row.payload_pull) for key, row in self.ledgers[rank].rows.items()}


def ranks(count, size=3):
    return [torch.full((size,), float(rank)) for rank in range(count)]


def test_mean_is_written_into_everybodys_tensors():
    world, tensors = World(4), ranks(4)
    world.together(lambda rank, channel: channel.mean([tensors[rank]]).wait())
    assert all(torch.equal(tensor, torch.full((3,), 1.5)) for tensor in tensors)
    assert world.rows(2) == {("world", "mean", "values"): (12, 12)}


def test_mean_of_nothing_and_of_empty_tensors_is_legal():
    world = World(2)
    assert world.together(lambda _, channel: channel.mean([]).wait()) == [[], []]
    empty = torch.zeros(0)
    world.together(lambda _, channel: channel.mean([empty.clone()]).wait())
    assert world.ledgers[0].total().payload_push == 0


def test_a_group_of_one_hands_nothing_over():
    world = World(1)
    tensor = torch.ones(5)
    world.together(lambda _, channel: channel.mean([tensor]).wait())
    ((alone,),) = world.together(lambda _, c: c.gather({"values": tensor}).wait())
    assert torch.equal(alone["values"], tensor)
    assert world.ledgers[0].rows == {}


def test_gather_gives_everybodys_payload_in_order():
    world = World(3)
    gathered = world.together(
        lambda rank, channel: channel.gather(
            {
                "values": torch.full((2,), float(rank)),
                "indices": torch.tensor([rank], dtype=torch.int32),
            }
        ).wait()
    )
    assert [int(payload["indices"]) for payload in gathered[1]] == [0, 1, 2]
    assert world.rows(0) == {
        ("world", "gather", "values"): (8, 16),
        ("world", "gather", "indices"): (4, 8),
    }


def test_ragged_and_empty_payloads_travel_with_their_sizes():
    world = World(3)
    gathered = world.together(lambda rank, c: c.gather({"values": torch.ones(rank)}, ragged=True).wait())
    assert [len(payload["values"]) for payload in gathered[0]] == [0, 1, 2]
    assert world.rows(0) == {
        ("world", "gather", "values"): (0, 12),
        ("world", "gather", "sizes"): (8, 16),
    }


def test_payloads_of_different_sizes_must_be_declared():
    world = World(2)
    with pytest.raises(MethodError, match="ragged=True"):
        world.together(lambda rank, c: c.gather({"values": torch.ones(rank + 1)}).wait())


def test_broadcast_gives_everybody_the_sources_tensors():
    world, tensors = World(3), ranks(3)
    world.together(lambda rank, channel: channel.broadcast([tensors[rank]], source=2).wait())
    assert all(torch.equal(tensor, torch.full((3,), 2.0)) for tensor in tensors)
    assert world.rows(2) == {("world", "broadcast", "weights"): (12, 0)}
    assert world.rows(0) == {("world", "broadcast", "weights"): (0, 12)}


class Sum(Server):
    def update(self, pushes):
        self.memory["asked"] = self.memory.get("asked", 0) + 1
        return {"weights": sum(push["values"] for push in pushes)}


def test_a_server_answers_all_and_lives_on_one_worker():
    world = World(4)
    servers = [Sum({}) for _ in range(4)]
    answers = world.together(
        lambda rank, c: c.push_pull(6, {"values": torch.tensor([rank, 1.0])}, servers[rank]).wait()
    )
    assert all(torch.equal(a["weights"], torch.tensor([6.0, 4.0])) for a in answers)
    assert [server.memory for server in servers] == [{}, {}, {"asked": 1}, {}]
    assert world.rows(0) == {
        ("world", "push", "values"): (8, 0),
        ("world", "pull", "weights"): (0, 8),
    }
    assert world.ledgers[2].total().wire_received == 24
    assert world.ledgers[2].total().wire_sent == 24


def test_keys_are_spread_over_the_workers():
    world = World(3)
    servers = [Sum({}) for _ in range(3)]

    def turn(rank, channel):
        for key in range(3):
            channel.push_pull(key, {"values": torch.ones(1)}, servers[rank]).wait()

    world.together(turn)
    assert [server.memory["asked"] for server in servers] == [1, 1, 1]


def test_messages_go_from_one_to_the_next_whoever_comes_first():
    world = World(3)

    def ring(rank, channel):
        coming = channel.receive((rank - 1) % 3)
        channel.send({"values": torch.tensor([float(rank)])}, (rank + 1) % 3).wait()
        return float(coming.wait()["values"])

    assert world.together(ring) == [2.0, 0.0, 1.0]
    world.transport.check_settled()
    assert world.rows(1) == {
        ("world", "send", "values"): (4, 0),
        ("world", "receive", "values"): (0, 4),
    }


def test_a_message_that_nobody_receives_is_named():
    world = World(2)
    world.together(lambda r, c: c.send({"values": torch.ones(1)}, 1).wait() if r == 0 else None)
    with pytest.raises(MethodError, match="rank 0 sent 1 messages to rank 1"):
        world.transport.check_settled()


def test_several_calls_may_be_under_way_at_once():
    world, first, second = World(2), ranks(2), ranks(2)

    def turn(rank, channel):
        pending = [channel.mean([first[rank]]), channel.mean([second[rank]], kind="weights")]
        for one in reversed(pending):
            one.wait()

    world.together(turn)
    assert torch.equal(first[0], second[1])


def test_workers_that_do_not_agree_are_named():
    world = World(2)
    with pytest.raises(MethodError, match=r"call 1 on run.world does not agree.*rank 1"):
        world.together(lambda r, c: (c.mean([torch.ones(2 + r)])).wait())


def test_workers_that_wait_for_ever_are_named():
    world = World(3)
    with pytest.raises(MethodError, match=r"mean.*by ranks \[0, 1\], and ranks \[2\] did not come"):
        world.together(lambda r, c: c.mean([torch.ones(1)]).wait() if r < 2 else None)


def test_an_unknown_kind_is_refused():
    world = World(2)
    with pytest.raises(MethodError, match="'gradients'"):
        world.together(lambda _, c: c.mean([torch.ones(1)], kind="gradients").wait())


def test_the_quiet_channel_meters_nothing_and_leaves_what_it_is_given():
    world, tensors = World(4, kind=QuietChannel), ranks(4)
    means = world.together(lambda rank, channel: channel.mean([tensors[rank]]).wait())
    assert torch.equal(means[3][0], torch.full((3,), 1.5))
    assert torch.equal(tensors[3], torch.full((3,), 3.0))
    assert all(ledger.rows == {} for ledger in world.ledgers)


def test_what_is_in_flight_lands_when_it_should():
    world, tensors = World(2), ranks(2)
    flights = [Flight(), Flight()]

    def launch(rank, channel):
        flights[rank].launch(channel.mean([tensors[rank]]), lands=3, sent_at=1)

    world.together(launch)
    assert not any(channel.unclaimed for channel in world.world)
    assert [list(flight.landed(2)) for flight in flights] == [[], []]
    saved = flights[0].state()
    (landing,) = flights[0].landed(3)
    assert torch.equal(landing.answer[0], torch.full((3,), 0.5))
    assert landing.note == {"sent_at": 1}
    assert len(flights[0]) == 0

    again = Flight()
    again.load(saved)
    (landing,) = again.landed(3)
    assert torch.equal(landing.answer[0], torch.full((3,), 0.5))


def test_what_was_given_may_be_changed_once_it_was_waited_for():
    """As on a network: the others read what was sent, not what it has become."""
    world = World(3)

    def gossip(rank, channel):
        own = torch.full((2,), float(rank))
        payloads = channel.gather({"weights": own}).wait()
        own.fill_(-1.0)
        seen = [float(payload["weights"][0]) for payload in payloads]
        message = torch.full((2,), float(rank))
        sent = channel.send({"weights": message}, to=(rank + 1) % 3)
        sent.wait()
        message.fill_(-1.0)
        got = channel.receive(source=(rank - 1) % 3).wait()
        return seen, float(got["weights"][0])

    assert world.together(gossip) == [([0, 1, 2], 2), ([0, 1, 2], 0), ([0, 1, 2], 1)]


def test_a_server_may_go_on_with_what_it_answered():
    world = World(2)

    class Counting(Server):
        def update(self, pushes):
            state = self.memory.setdefault("sum", torch.zeros(1))
            state.add_(sum(push["values"] for push in pushes))
            return {"weights": state}

    servers = [Counting({}) for _ in range(2)]

    def twice(rank, channel):
        pendings = [channel.push_pull(0, {"values": torch.ones(1)}, servers[rank]) for _ in range(2)]
        return [float(pending.wait()["weights"]) for pending in pendings]

    assert world.together(twice) == [[2, 4], [2, 4]]


def test_sizes_that_the_other_end_cannot_know_are_counted():
    """8 bytes a kind, for pushes, answers and messages as for what is gathered."""
    world = World(2)

    class Same(Server):
        def update(self, pushes):
            return {"weights": torch.ones(5)}

    def ragged(rank, channel):
        payload = {"values": torch.ones(rank + 1)}
        channel.push_pull(0, payload, Same({}), ragged=True).wait()
        if rank == 0:
            channel.send(payload, to=1, ragged=True).wait()
        else:
            channel.receive(source=0).wait()

    world.together(ragged)
    first, second = (ledger.rows for ledger in world.ledgers)
    assert second["world", "push", "sizes"].payload_push == 8
    assert second["world", "pull", "sizes"].payload_pull == 8
    assert first["world", "send", "sizes"].payload_push == 8
    assert second["world", "receive", "sizes"].payload_pull == 8
    with pytest.raises(MethodError, match="say ragged=True"):
        World(2).together(lambda rank, c: c.push_pull(0, {"values": torch.ones(rank)}, Same({})).wait())


def test_what_a_worker_sends_to_itself_costs_nothing():
    world = World(2)

    def to_itself(rank, channel):
        channel.send({"values": torch.ones(3)}, to=rank).wait()
        return channel.receive(source=rank).wait()["values"].sum().item()

    assert world.together(to_itself) == [3, 3]
    assert all(not ledger.rows for ledger in world.ledgers)


def test_taking_one_message_leaves_the_others_in_flight():
    flight = Flight()
    for number in range(3):
        flight.launch(None, lands=number, number=number)
    assert next(flight.landed(1)).note == {"number": 0}
    assert len(flight) == 2
    assert [landing.note["number"] for landing in flight.landed(5)] == [1, 2]
