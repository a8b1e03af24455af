"""The verbs of the channels: what they give, and what they meter, alike on every transport.

Each function under `everywhere` is one worker's part of a test. Four workers run it on each transport: in one
process, in processes of one node (shared memory), and in processes of two nodes (torch.distributed).
Processes also run it on the path of GPUs. The ledgers must be the same on all transports.
"""

import itertools
from functools import cache, partial
from typing import Any

import pytest
import torch

from tests import processes
from tests.unit import parts_of_messages  # noqa: F401
from tests.unit.channels import PARTS, Sum, everywhere, floats, play_here, play_in_process, same
from thinwire.api.flight import Flight
from thinwire.base.placement import Cluster

# NCCL needs one order of the calls on all channels.
NOT_BETWEEN_GPUS = "two_channels_may_be_called_in_another_order_by_each_worker"


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
    answer = me.world.mean(tensors).wait()
    assert answer[0] is tensors[0]
    assert me.world.mean([]).wait() == []
    me.world.mean([torch.zeros(0, 3)]).wait()
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
def a_mean_of_5_mb_and_smaller_ones_before_and_after(me):
    for size in (10, 300_000, 1_250_000, 7):
        tensor = torch.arange(size, dtype=torch.float32)
        tensor[-1] = me.rank
        me.world.mean([tensor]).wait()
        assert torch.equal(tensor[:-1], torch.arange(size - 1, dtype=torch.float32))
        assert tensor[-1] == 1.5


@everywhere
def ragged_payloads_of_5_mb_beside_tiny_and_empty_ones_are_sent_with_their_sizes(me):
    for large in me.mates:
        size = 1_250_000 if me.rank == large else me.rank
        gathered = me.world.gather({"values": torch.full((size,), float(me.rank))}, ragged=True).wait()
        for rank, payload in enumerate(gathered):
            wanted = 1_250_000 if rank == large else rank
            assert torch.equal(payload["values"], torch.full((wanted,), float(rank)))
    own, every = 4 * (1_250_000 + 3 * me.rank), 4 * (4 * 1_250_000 + 3 * sum(me.mates))
    sizes = {("world", "gather", "sizes"): (4 * 8, 4 * 24)}
    assert me.rows() == {("world", "gather", "values"): (own, every - own)} | sizes


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
        me.unmetered.mean([floats(me.rank)]),
    ]
    answers = [one.wait() for one in reversed(pending)][::-1]
    assert (same(tensors[0], 1.5), same(tensors[1], 3), same(tensors[2], 3)) == (True, True, True)
    assert [float(payload["values"]) for payload in answers[1]] == me.mates
    assert same(answers[3]["weights"], 6)
    assert [len(payload["values"]) for payload in answers[4]] == me.mates
    assert same(answers[6][0], 1.5)


@everywhere
def means_may_be_held_back_until_others_have_ended(me):
    """What is called after them has its turn behind them."""
    tensors = [floats(me.rank + number) for number in range(4)]
    pending = [me.world.mean([tensors[0]])]
    for tensor in tensors[1:]:
        pending.append(me.world.mean([tensor], after=pending[-2:]))
    (gathered,) = {len(me.world.gather({"values": floats(me.rank)}).wait())}
    source = floats(me.rank)
    me.world.broadcast([source], source=2).wait()
    for one in reversed(pending):
        one.wait()
    assert [float(tensor) for tensor in tensors] == [1.5, 2.5, 3.5, 4.5]
    assert (gathered, float(source)) == (4, 2)


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
    me.world.send({"weights": message}, to=me.right).wait()
    message.fill_(-1.0)
    assert same(me.world.receive(source=me.left).wait()["weights"], me.left, me.left)


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
    (mean,) = me.unmetered.mean([tensor]).wait()
    assert same(mean, 1.5, 1.5)
    assert same(tensor, me.rank, me.rank)
    me.unmetered.gather({"values": tensor}, ragged=True).wait()
    me.unmetered.broadcast([tensor], source=1).wait()
    me.unmetered.push_pull(0, {"values": tensor}, Sum({})).wait()
    assert me.ledger.rows == {}


@everywhere
def a_group_of_one_sends_nothing(me):
    for channel in (c for c in (me.node, me.across) if c.size == 1):
        tensor = floats(me.rank)
        channel.mean([tensor]).wait()
        channel.broadcast([tensor], source=0).wait()
        (alone,) = channel.gather({"values": tensor}).wait()
        served = channel.push_pull(5, {"values": tensor}, Sum({})).wait()
        channel.send({"values": tensor}, to=0)
        got = channel.receive(source=0).wait()
        for answer in (tensor, alone["values"], served["weights"], got["values"]):
            assert same(answer, me.rank)
    assert me.ledger.rows == {}


@everywhere
def messages_in_flight_arrive_at_their_step(me):
    flight = Flight()
    flight.launch(me.world.mean([floats(me.rank)]), lands=3, sent_at=1)
    assert not me.world.unclaimed
    assert list(flight.landed(2)) == []
    again = Flight()
    again.load(flight.state())
    for each in (flight, again):
        (landing,) = each.landed(3)
        assert same(landing.answer[0], 1.5)
        assert landing.note == {"sent_at": 1}
        assert len(each) == 0


played_in_one_process = cache(play_in_process)


CLUSTERS = [Cluster(4), Cluster(4, 2)]


@cache
def played_in_processes() -> dict[tuple[str, bool, Cluster], Any]:
    """The outcomes of all parts, by part, path of calls and cluster, in one launch."""
    plays = {}
    for cluster, part in itertools.product(CLUSTERS, PARTS):
        plays[part, False, cluster] = play = partial(play_here, PARTS[part], cluster)
        if part != NOT_BETWEEN_GPUS:
            plays[part, True, cluster] = partial(processes.on_device_group, play)
    return dict(zip(plays, processes.run_all([*plays.values()], 4), strict=True))


@pytest.mark.parametrize("cluster", CLUSTERS, ids=["on_one_node", "on_two_nodes"])
@pytest.mark.parametrize("like_gpus", [False, True])
@pytest.mark.parametrize("part", PARTS)
def test_a_verb_does_the_same_in_one_process_and_in_several(part, like_gpus, cluster):
    expected = played_in_one_process(PARTS[part], cluster)
    if like_gpus and part == NOT_BETWEEN_GPUS:
        return
    ledgers = played_in_processes()[part, like_gpus, cluster]
    if isinstance(ledgers, processes.Failed):
        raise ledgers
    assert ledgers == expected
