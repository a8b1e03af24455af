"""The simulation: both of its ways agree, its times are possible, and messages pass over links."""

from dataclasses import replace

import numpy as np
import pytest

from thinwire.base.errors import UserError
from thinwire.base.placement import Cluster
from thinwire.config.hardware import ClusterDescription
from thinwire.simulation import timeline
from thinwire.simulation.call_seconds import Loads
from thinwire.simulation.program import Await, Compute, HandOver, Hold, Post, Wait, Work, program_of
from thinwire.traffic import wire_bytes
from thinwire.traffic.wire_bytes import payload_rate

STEPS, CALLS, BYTES = 6, 4, 4_000_000
VERBS = ("mean", "gather", "ragged gather", "broadcast", "push_pull")
CLUSTERS = [Cluster(1), Cluster(6), Cluster(8, 2), Cluster(12, 12), Cluster(16, 4)]


def described(rate=1.0, latency=10e-6, call=50e-6, bus=20.0, **more):
    link = {"rate_gbit_per_second": rate, "latency_seconds": latency, **more.pop("link", {})}
    about = {"name": "made_up", "title": "Made up", "nodes": 2, "workers_per_node": 2, "link": link}
    seconds = {"memory_bus_gigabytes_per_second": bus, "call_latency_seconds": call}
    return ClusterDescription.model_validate({**about, **seconds, **more})


def call(verb="mean", channel="world", partner=0, size=BYTES):
    pull = size // 2 if verb == "push_pull" else 0
    return HandOver(channel, verb.removeprefix("ragged "), partner, "ragged" in verb, size, pull, 2e-3)


def program(*calls, compute=0.01):
    """Steps in which each call is handed over after some computation; all are waited for at the end."""
    steps = []
    for step in range(STEPS):
        made = [one for made in calls for one in (Work(compute), made)]
        waits = [Await(step * len(calls) + number) for number in range(len(calls))]
        steps.append([*made, *waits, Work(compute / 2)])
    return steps


def paces(cluster, variation=0.0, steps=STEPS):
    return np.random.default_rng(0).lognormal(0, variation, (steps, cluster.workers))


def simulated(made, cluster, on, variation=0.0):
    """With one program for all workers, or one for each."""
    programs = made if isinstance(made[0][0], list) else [made] * cluster.workers
    pace = paces(cluster, variation, len(programs[0]))
    return timeline.by_events(programs, cluster, Loads(on, cluster), pace)


@pytest.mark.parametrize("cluster", CLUSTERS, ids=str)
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("channel", ["world", "node", "across"])
def test_both_ways_agree(cluster, verb, channel):
    size = len(cluster.groups(0)[channel])
    made = program(*(call(verb, channel, number % size) for number in range(CALLS)))
    loads, pace = Loads(described(), cluster), paces(cluster, 0.3)
    if not timeline.recurrence_applies([made] * cluster.workers, cluster):
        assert verb == "push_pull" or channel == "across"
        return
    by_events = timeline.by_events([made] * cluster.workers, cluster, loads, pace)
    at_once = timeline.by_recurrence(made, cluster, loads, pace)
    for part in ("end", "compute", "others", "server", "communication"):
        name = f"{part}_seconds"
        np.testing.assert_allclose(getattr(at_once, name), getattr(by_events, name), rtol=1e-12, atol=1e-12)
    assert at_once.sent_bytes == by_events.sent_bytes
    assert at_once.between_nodes_bytes == by_events.between_nodes_bytes


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("cluster", CLUSTERS, ids=str)
def test_the_parts_of_a_step_add_up_and_it_is_never_faster_than_computing_or_sending_alone(cluster, verb):
    on = described()
    made = simulated(program(*[call(verb)] * CALLS), cluster, on, 0.3)
    waits = made.others_seconds + made.server_seconds + made.communication_seconds
    spent = (made.compute_seconds + waits).cumsum(axis=0)
    np.testing.assert_allclose(spent, made.end_seconds, rtol=1e-12)
    assert made.step_seconds.sum() == pytest.approx(made.seconds)
    assert made.seconds >= (paces(cluster, 0.3) * 0.01 * (CALLS + 0.5)).sum(axis=0).max()
    assert made.seconds >= made.between_nodes_bytes / (on.link.rate_bytes_per_second * cluster.nodes)
    assert cluster.workers > 1 or (made.sent_bytes, waits.sum()) == (0, 0)


@pytest.mark.parametrize("verb", VERBS)
def test_twice_all_rates_is_half_the_time_without_latency(verb):
    slow = described(latency=0, call=0)
    fast = described(rate=2, bus=40, latency=0, call=0)
    of_slow = program(replace(call(verb), server_seconds=2e-3))
    of_fast = program(replace(call(verb), server_seconds=1e-3), compute=0.005)
    cluster = Cluster(8, 2)
    once, twice = simulated(of_slow, cluster, slow, 0.3), simulated(of_fast, cluster, fast, 0.3)
    np.testing.assert_allclose(once.end_seconds, 2 * twice.end_seconds, rtol=1e-12)


@pytest.mark.parametrize("cluster", CLUSTERS, ids=str)
@pytest.mark.parametrize("channel", ["world", "node", "across"])
def test_its_bytes_are_those_of_the_ledgers(cluster, channel):
    for partner in range(min(3, len(cluster.groups(0)[channel]))):
        for verb in VERBS:
            made = simulated(program(call(verb, channel, partner)), cluster, described())
            sent = between = 0
            for worker in range(cluster.workers):
                members = cluster.groups(worker)[channel]
                nodes = tuple(cluster.node_of(member) for member in members)
                for wire in wires(verb, members.index(worker), nodes, partner):
                    sent += wire.sent
                    between += wire.between_nodes
            assert made.sent_bytes == STEPS * sent, verb
            if verb != "ragged gather":
                assert made.between_nodes_bytes == STEPS * between, verb


def wires(verb, rank, nodes, partner):
    """What the ledger of one member enters for a call."""
    if len(nodes) == 1:
        return []
    each = [BYTES] * len(nodes)
    match verb:
        case "mean":
            return [wire_bytes.all_reduce(rank, nodes, BYTES)]
        case "broadcast":
            return [wire_bytes.broadcast(rank, nodes, BYTES, partner)]
        case "push_pull":
            pulled = wire_bytes.pull(rank, nodes, BYTES // 2, partner)
            return [wire_bytes.push(rank, nodes, each, partner), pulled]
    return [wire_bytes.all_gather(rank, nodes, each)]


def test_by_hand_the_seconds_of_a_mean_and_of_a_server_that_answers_one_push_after_the_other():
    """By hand: a ring of 4 nodes sends 3/2 of the bytes in 6 hops; 1,448 of 1,514 bytes are payload."""
    made = simulated(program(call()), Cluster(4, 4), described())
    expected = 1.5 * BYTES / (125e6 * 1448 / 1514) + 6 * 10e-6 + 50e-6
    assert made.communication_seconds[0, 0] == pytest.approx(expected)
    # By hand: all pushes arrive at once at a server that needs 2 ms for each key.
    free = described(rate=1e5, latency=0, call=0)
    made = simulated(program(*[call("push_pull", partner=1, size=8)] * CALLS, compute=0), Cluster(4, 4), free)
    assert made.seconds == pytest.approx(STEPS * CALLS * 2e-3, rel=1e-3)
    assert made.server_seconds.sum() == pytest.approx(4 * STEPS * CALLS * 2e-3, rel=1e-3)


def test_a_call_that_is_held_back_begins_when_the_others_have_ended_and_nobody_waits_for_that():
    """By hand: each call takes its bytes and a latency, which the next one hides unless it is held back."""
    cluster, latency = Cluster(2, 2), 1e-3
    on, size = described(latency=0, call=latency), BYTES / (125e6 * 1448 / 1514)
    posts = [Post(n, "world", (0, 1), "mean", 0, False, BYTES, BYTES, 0.0) for n in (1, 2, 3)]
    held = [posts[0], replace(posts[1], after=(1,)), replace(posts[2], after=(1, 2))]
    ends = {}
    for name, calls in (("free", posts), ("held", held)):
        steps = [[*calls, Compute("hook", "step", 1e-4)], [Wait(1), Wait(2), Wait(3)]]
        made = program_of(steps, length=4)
        assert not timeline.recurrence_applies([made] * 2, cluster) or name == "free"
        ends[name] = simulated(made, cluster, on).end_seconds[:, 0]
        assert ends[name][0] == pytest.approx(1e-4)
        assert ends[name][2] - ends[name][1] == pytest.approx(1e-4)
    assert made[2][:3] == [made[0][0], Hold(3), made[0][2]]
    # Of the three, two are under way at once where nothing is held back.
    assert ends["free"][1] == pytest.approx(3 * size + latency)
    assert ends["held"][1] == pytest.approx(3 * (size + latency))


def test_of_many_calls_two_are_under_way_at_once():
    """By hand: five calls of 10 ms each take three times 10 ms, but messages do not wait."""
    cluster, on = Cluster(2, 2), described(latency=0, call=10e-3)

    def seconds(*calls):
        waits = [Await(number) for number in range(len(calls))]
        return simulated([[*calls, *waits]], cluster, on).seconds

    assert seconds(*[call(size=8)] * 5) == pytest.approx(30e-3, rel=1e-3)
    assert seconds(*[call("ragged gather", size=8)] * 5) == pytest.approx(10e-3, rel=1e-3)


def test_a_tree_has_fewer_hops_and_a_hierarchy_fewer_bytes_between_nodes():
    """By hand: rings of 64 workers have 126 hops, trees of 64 have 12, and trees of 16 nodes have 8."""
    hops, sent, alone = {}, {}, {}
    for name in ("ring", "tree", "hierarchical"):
        on = described(latency=1e-3, algorithms={"all_reduce": name})
        hops[name] = round(simulated([[call(size=64), Await(0)]], Cluster(64, 16), on).seconds / 1e-3)
        sent[name] = simulated(program(call()), Cluster(64, 16), on)
        alone[name] = simulated(program(call()), Cluster(16, 16), on)
    assert hops == {"ring": 126, "tree": 12, "hierarchical": 8}
    assert sent["tree"].sent_bytes == sent["ring"].sent_bytes
    assert sent["hierarchical"].between_nodes_bytes < sent["ring"].between_nodes_bytes
    # Where each node has one worker, a hierarchy is a tree.
    assert alone["hierarchical"].seconds == alone["tree"].seconds
    assert alone["hierarchical"].between_nodes_bytes == alone["tree"].between_nodes_bytes


def test_everybody_waits_for_the_slowest():
    pace = np.ones((STEPS, 4))
    pace[:, 2] = 3.0
    made = program(call())
    waits = timeline.by_events([made] * 4, Cluster(4, 4), Loads(described(), Cluster(4, 4)), pace)
    assert waits.others_seconds[1:, [0, 1, 3]].min() == pytest.approx(0.02 + 0.01)
    assert waits.others_seconds[:, 2].max() == 0


def test_a_program_repeats_steps_with_calls_that_are_awaited_a_step_later():
    """In each step, the call of the step before is waited for; in the first, that of a step before all."""
    batch, evaluation = Compute("harness", "", 0.25), Compute("harness", "", 9.0)
    first, second = (Post(n, "world", (0, 1), "mean", 0, False, 100, 100, 0.0) for n in (1, 2))
    steps = [
        [Wait(0), batch, Compute("forward", "a", 1.25), evaluation, first],
        [Wait(1), Compute("forward", "a", 1.75), second],
    ]
    made = program_of(steps, length=5)
    kinds = [[type(one).__name__ for one in step] for step in made[:2]]
    assert kinds == [["Work", "HandOver"], ["Await", "Work", "HandOver"]]
    assert [o.call for step in made for o in step if isinstance(o, Await)] == [0, 1, 2, 3]
    assert [o.seconds for step in made for o in step if isinstance(o, Work)] == [1.5, 1.75, 1.5, 1.75, 1.5]
    with pytest.raises(UserError, match="record more steps"):
        program_of([])


FAR = described(latency=1e-3, call=2e-3)
SECONDS = BYTES / payload_rate(FAR.link.rate_bytes_per_second)
ON_BUS = BYTES / FAR.memory_bus_bytes_per_second


def message(verb, distance, size=BYTES):
    return HandOver("world", verb, distance, False, size if verb == "send" else 0, 0, 0.0)


def shifted(distance, workers):
    """Every worker sends so many ranks further, and receives from as far."""
    return [[message("send", distance), message("receive", workers - distance), Await(0), Await(1)]]


@pytest.mark.parametrize(
    ("cluster", "distance", "leave", "first", "last"),
    [
        (Cluster(5, 5), 1, 5, SECONDS + 3e-3, SECONDS + 3e-3),
        (Cluster(6, 3), 1, 3, SECONDS + 3e-3, SECONDS + 3e-3),  # one message of each node leaves it
        (Cluster(6, 3), 2, 6, SECONDS + 3e-3, 2 * SECONDS + 3e-3),  # both share its link
        (Cluster(2), 1, 0, 2 * ON_BUS + 2e-3, 2 * ON_BUS + 2e-3),
        (Cluster(2, 2), 0, 0, 0.0, 0.0),  # to itself
    ],
)
def test_by_hand_messages_share_the_links_and_buses_of_nodes(cluster, distance, leave, first, last):
    made = simulated(shifted(distance, cluster.workers), cluster, FAR)
    assert made.between_nodes_bytes == leave * BYTES
    assert made.sent_bytes == (cluster.workers * BYTES if distance else 0)
    assert (made.end_seconds.min(), made.end_seconds.max()) == pytest.approx((first, last))


def test_a_half_duplex_link_sends_and_receives_in_turn():
    on = described(latency=0, call=0, link={"full_duplex": False})
    assert simulated(shifted(1, 2), Cluster(2, 2), on).seconds == pytest.approx(2 * SECONDS)


@pytest.mark.parametrize("late", [0, 1])
def test_a_message_begins_when_both_ends_have_made_it(late):
    programs = [[[message("send", 1), Await(0)]], [[message("receive", 1), Await(0)]]]
    programs[late][0].insert(0, Work(0.5))
    made = simulated(programs, Cluster(2, 2), FAR)
    np.testing.assert_allclose(made.end_seconds, 0.5 + SECONDS + 3e-3)
    assert made.others_seconds[0, 1 - late] == pytest.approx(0.5)


def test_messages_on_one_way_arrive_in_order():
    twice = [[message("send", 1, 8), message("send", 1), Await(0), Await(1)]]
    other = [[message("receive", 1), Await(0), message("receive", 1), Await(1)]]
    assert simulated([twice, other], Cluster(2, 2), FAR).sent_bytes == BYTES + 8


@pytest.mark.parametrize(
    "programs", [[program(call()), [[Work(0.1)]] * STEPS], [[[message("send", 1), Await(0)]]] * 2]
)
def test_calls_that_another_worker_never_makes_are_one_sentence(programs):
    with pytest.raises(UserError, match="wait for each other for ever"):
        simulated(programs, Cluster(2), FAR)


def test_the_other_end_follows_from_the_distance_and_the_recurrence_leaves_messages_out():
    cluster, step = Cluster(6, 6), [Compute("hook", "step", 1e-3)]
    step += [Post(0, "world", tuple(range(6)), "send", 1, False, 8, 0, 0.0, rank=5), Wait(0)]
    made = program_of([step])
    assert [operation.partner for operation in made[0] if isinstance(operation, HandOver)] == [2]
    assert not timeline.recurrence_applies([made] * 6, cluster)


def test_the_load_of_a_message_is_that_of_a_gather_of_two_in_one_direction():
    loads = Loads(FAR, Cluster(4, 2))
    for ends in ((0, 1), (1, 2)):
        gather = call("ragged gather")
        (both,), (one,) = loads.of(gather, ends).phases, loads.of_message(*ends, BYTES).phases
        assert one.latency_seconds == both.latency_seconds
        for own, twice in zip(one.busy, both.busy):
            assert own.seconds.sum() == pytest.approx(twice.seconds.sum() / 2)
