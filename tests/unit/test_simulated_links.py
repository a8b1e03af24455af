"""What passes over simulated links: messages between two workers, and gloo's ring."""

import numpy as np
import pytest

from tests.unit.test_simulation import BYTES, described
from thinwire.base.errors import UserError
from thinwire.base.placement import Cluster
from thinwire.simulation import timeline
from thinwire.simulation.call_seconds import Loads
from thinwire.simulation.program import Await, Compute, HandOver, Post, Wait, Work, program_of
from thinwire.traffic.wire_bytes import payload_rate

ON = described(latency=1e-3, call=2e-3)
SECONDS = BYTES / payload_rate(ON.link.rate_bytes_per_second)


def message(verb, distance, size=BYTES):
    return HandOver("world", verb, distance, False, size if verb == "send" else 0, 0, 0.0)


def shifted(distance, workers):
    """Every worker sends so many ranks further, and receives from as far."""
    return [[message("send", distance), message("receive", workers - distance), Await(0), Await(1)]]


def simulated(programs, cluster, on=ON):
    return timeline.by_events(programs, cluster, Loads(on, cluster), np.ones((1, cluster.workers)))


def test_by_hand_messages_round_a_ring_of_nodes_go_at_the_same_time():
    made = simulated([shifted(1, 5)] * 5, Cluster(5, 5))
    np.testing.assert_allclose(made.end_seconds, SECONDS + 3e-3)
    assert (made.sent_bytes, made.between_nodes_bytes) == (5 * BYTES, 5 * BYTES)


def test_by_hand_workers_of_a_node_share_its_link_and_stay_on_its_bus():
    """One message of each node leaves it at distance 1, both do at distance 2; the others use the bus."""
    cluster = Cluster(6, 3)
    near, far = (simulated([shifted(distance, 6)] * 6, cluster) for distance in (1, 2))
    assert near.between_nodes_bytes == 3 * BYTES
    assert near.seconds == pytest.approx(SECONDS + 3e-3)
    bus = BYTES / ON.memory_bus_bytes_per_second
    assert simulated([shifted(1, 2)] * 2, Cluster(2)).seconds == pytest.approx(2 * bus + 2e-3)
    assert far.end_seconds[0] == pytest.approx([SECONDS + 3e-3, 2 * SECONDS + 3e-3] * 3)


def test_a_half_duplex_link_sends_and_receives_in_turn():
    on = described(latency=0, call=0, link={"full_duplex": False})
    assert simulated([shifted(1, 2)] * 2, Cluster(2, 2), on).seconds == pytest.approx(2 * SECONDS)


@pytest.mark.parametrize("late", [0, 1])
def test_a_message_begins_when_both_ends_have_made_it(late):
    programs = [[[message("send", 1), Await(0)]], [[message("receive", 1), Await(0)]]]
    programs[late][0].insert(0, Work(0.5))
    made = simulated(programs, Cluster(2, 2))
    np.testing.assert_allclose(made.end_seconds, 0.5 + SECONDS + 3e-3)
    assert made.others_seconds[0, 1 - late] == pytest.approx(0.5)


def test_messages_on_one_way_arrive_in_order_and_one_to_itself_takes_no_time():
    twice = [[message("send", 1, 8), message("send", 1), Await(0), Await(1)]]
    other = [[message("receive", 1), Await(0), message("receive", 1), Await(1)]]
    assert simulated([twice, other], Cluster(2, 2)).sent_bytes == BYTES + 8
    own = [[message("send", 0), message("receive", 0), Await(0), Await(1)]]
    assert simulated([own] * 2, Cluster(2, 2)).seconds == 0


def test_a_message_that_nobody_receives_is_one_sentence():
    with pytest.raises(UserError, match="wait for each other for ever"):
        simulated([[[message("send", 1), Await(0)]]] * 2, Cluster(2))


def test_the_other_end_follows_from_the_distance_and_the_recurrence_leaves_messages_out():
    cluster, step = Cluster(6, 6), [Compute("hook", "step", 1e-3)]
    step += [Post(0, "world", tuple(range(6)), "send", 1, False, 8, 0, 0.0, rank=5), Wait(0)]
    made = program_of([step])
    assert [operation.partner for operation in made[0] if isinstance(operation, HandOver)] == [2]
    assert not timeline.recurrence_applies([made] * 6, cluster, Loads(ON, cluster))


def test_the_load_of_a_message_is_that_of_a_gather_of_two_in_one_direction():
    cluster = Cluster(4, 2)
    loads = Loads(ON, cluster)
    for ends in ((0, 1), (1, 2)):
        gather = HandOver("world", "gather", 0, True, BYTES, 0, 0.0)
        (both,), (one,) = loads.of(gather, ends).phases, loads.of_message(*ends, BYTES).phases
        assert one.latency_seconds == both.latency_seconds
        for own, twice in zip(one.busy, both.busy):
            assert own.seconds.sum() == pytest.approx(twice.seconds.sum() / 2)
