"""The simulation: both of its ways agree, and its times are possible."""

from dataclasses import replace

import numpy as np
import pytest

from thinwire.base.errors import UserError
from thinwire.base.placement import Cluster
from thinwire.config.hardware import ClusterDescription
from thinwire.simulation import event_loop, recurrence
from thinwire.simulation.call_seconds import Loads
from thinwire.simulation.operations import Compute, Post, Wait
from thinwire.simulation.program import Await, HandOver, Hold, Work, program_of
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


def simulated(made, cluster, on, variation=0.0, **loads):
    pace = paces(cluster, variation, len(made))
    return event_loop.simulate([made] * cluster.workers, cluster, Loads(on, cluster, **loads), pace)


@pytest.mark.parametrize("cluster", CLUSTERS, ids=str)
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("channel", ["world", "node", "across"])
@pytest.mark.parametrize(("burst", "latencies"), [(0, {}), (40_000, {"gather": 0.03})])
def test_both_ways_agree(cluster, verb, channel, burst, latencies):
    size = len(cluster.groups(0)[channel])
    made = program(*(call(verb, channel, number % size) for number in range(CALLS)))
    loads, pace = Loads(described(), cluster, burst, latencies), paces(cluster, 0.3)
    if not recurrence.applies([made] * cluster.workers, cluster, loads):
        assert verb == "push_pull" or channel == "across"
        return
    by_events = event_loop.simulate([made] * cluster.workers, cluster, loads, pace)
    at_once = recurrence.simulate(made, cluster, loads, pace)
    for part in ("end", "compute", "others", "server", "communication"):
        name = f"{part}_seconds"
        np.testing.assert_allclose(getattr(at_once, name), getattr(by_events, name), rtol=1e-12, atol=1e-12)
    assert at_once.sent_bytes == by_events.sent_bytes
    assert at_once.between_nodes_bytes == by_events.between_nodes_bytes
    assert at_once.operations == by_events.operations


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


def test_a_calibrated_latency_is_that_of_its_kind_of_calls_between_nodes():
    cluster, on = Cluster(4, 2), described(latency=0, call=1e-3)
    loads = Loads(on, cluster, latency_seconds={"mean": 5e-3, "ragged gather": 7e-3})
    found = {
        (verb, channel): loads.of(call(verb, channel), cluster.groups(0)[channel])
        for verb in ("mean", "gather", "ragged gather")
        for channel in ("across", "node")
    }
    latencies = {key: sum(phase.latency_seconds for phase in load.phases) for key, load in found.items()}
    assert latencies == {
        ("mean", "across"): 5e-3,
        ("gather", "across"): 1e-3,
        ("ragged gather", "across"): 7e-3,
        **{(verb, "node"): 1e-3 for verb in ("mean", "gather", "ragged gather")},
    }


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
        assert not recurrence.applies([made] * 2, cluster, Loads(on, cluster)) or name == "free"
        ends[name] = simulated(made, cluster, on).end_seconds[:, 0]
        assert ends[name][0] == pytest.approx(1e-4)
        assert ends[name][2] - ends[name][1] == pytest.approx(1e-4)
    assert made[2][:3] == [made[0][0], Hold(3), made[0][2]]
    # Of the three, two are under way at once where nothing is held back.
    assert ends["free"][1] == pytest.approx(3 * size + latency)
    assert ends["held"][1] == pytest.approx(3 * (size + latency))


def test_on_an_emulated_network_other_calls_go_between_the_halves_of_a_mean():
    """By hand: each phase of a mean of two sends half its bytes. The third call waits until one has ended."""
    cluster, sizes = Cluster(2, 2), (200_000, BYTES, 400_000)
    small, large, third = (size / (125e6 * 1448 / 1514) for size in sizes)
    made = [[*(call(size=size) for size in sizes), Await(0)], [Await(1)], [Await(2)]]
    emulated = {"latency_seconds": {"mean": 0.0}}
    assert not recurrence.applies([made] * 2, cluster, Loads(described(latency=0), cluster, **emulated))
    ends = simulated(made, cluster, described(latency=0), **emulated).end_seconds[:, 0]
    assert ends == pytest.approx([small + large / 2, small + large, small + large + third])
    in_order = simulated(made, cluster, described(latency=0, call=0))
    assert in_order.end_seconds[:, 0] == pytest.approx([small, small + large, small + large + third])


def test_many_bytes_hide_the_latencies_of_hops_and_few_do_not():
    """By hand: a ring of 4 has three times the hops of a ring of 2, whose call has a latency of 5 ms."""
    cluster, on = Cluster(4, 4), described(latency=0)
    few, many = (
        simulated([[call(size=size), Await(0)]], cluster, on, latency_seconds={"mean": 5e-3}).seconds
        for size in (8, BYTES)
    )
    assert few == pytest.approx(3 * 5e-3)
    assert many == pytest.approx(1.5 * BYTES / (125e6 * 1448 / 1514) + 5e-3)


def test_a_mean_of_two_over_links_with_a_latency_waits_for_four_of_them_on_an_emulated_network():
    """Half of them until a member knows that the other one is ready, which only gloo waits for."""
    cluster, latency, size = Cluster(2, 2), 25e-3, BYTES / (125e6 * 1448 / 1514)
    for more, latencies in (({}, 2), ({"latency_seconds": {"mean": 0.0}}, 4)):
        on = described(latency=latency, call=0)
        made = simulated([[call(size=BYTES), Await(0)]], cluster, on, **more)
        assert made.seconds == pytest.approx(size + latencies * latency)


@pytest.mark.parametrize(("size", "late"), [(BYTES, 0.5), (60_000, 0.0)])
def test_a_gather_of_two_on_an_emulated_network_waits_for_half_of_the_late_payload(size, late):
    cluster, on = Cluster(2, 2), described()
    gather = call("gather", size=size)
    real, emulated = (Loads(on, cluster, burst).of(gather, (0, 1)).phases[0] for burst in (0, 36_864))
    extra = late * size / payload_rate(on.link.rate_bytes_per_second)
    assert emulated.latency_seconds == pytest.approx(real.latency_seconds + extra)
    # Among more members nothing is added, even if only two of them have a neighbour on another node.
    for more in (Cluster(3, 3), Cluster(4, 2)):
        phases = [Loads(on, more, burst).of(gather, more.world()).phases[0] for burst in (0, 36_864)]
        assert len({phase.latency_seconds for phase in phases}) == 1


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
    cluster, empty = Cluster(64, 16), call(size=64)
    hops = {}
    for name in ("ring", "tree", "hierarchical"):
        on = described(latency=1e-3, algorithms={"all_reduce": name})
        hops[name] = round(simulated([[empty, Await(0)]], cluster, on).seconds / 1e-3)
    assert hops == {"ring": 126, "tree": 12, "hierarchical": 8}
    ring, tree, hierarchical = (
        simulated(program(call()), cluster, described(algorithms={"all_reduce": name})) for name in hops
    )
    assert tree.sent_bytes == ring.sent_bytes
    assert hierarchical.between_nodes_bytes < ring.between_nodes_bytes


def test_where_each_node_has_one_worker_a_hierarchy_is_a_tree():
    tree, hierarchical = (
        simulated(program(call()), Cluster(16, 16), described(latency=1e-3, algorithms={"all_reduce": name}))
        for name in ("tree", "hierarchical")
    )
    assert hierarchical.seconds == tree.seconds
    assert hierarchical.between_nodes_bytes == tree.between_nodes_bytes


def test_everybody_waits_for_the_slowest():
    pace = np.ones((STEPS, 4))
    pace[:, 2] = 3.0
    made = program(call())
    timeline = event_loop.simulate([made] * 4, Cluster(4, 4), Loads(described(), Cluster(4, 4)), pace)
    assert timeline.others_seconds[1:, [0, 1, 3]].min() == pytest.approx(0.02 + 0.01)
    assert timeline.others_seconds[:, 2].max() == 0


def test_programs_that_do_not_match_are_one_sentence():
    programs, loads = [program(call()), [[Work(0.1)]] * STEPS], Loads(described(), Cluster(2))
    with pytest.raises(UserError, match="wait for each other for ever"):
        event_loop.simulate(programs, Cluster(2), loads, np.ones((STEPS, 2)))


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


def test_a_link_passes_on_a_burst_at_once_after_a_pause_and_never_more():
    """By hand: what is sent in a step takes a second, a burst half a second; a pause fills the bucket."""
    cluster, on = Cluster(2, 2), described()
    second = round(payload_rate(on.link.rate_bytes_per_second))
    burst = round(on.link.rate_bytes_per_second / 2)
    sent = HandOver("world", "gather", 0, False, second, 0, 0.0)
    made = [[sent, Await(0)], [sent, Await(1)], [Work(0.25), sent, Await(2)], [Work(9.0), sent, Await(3)]]
    without, with_burst = (simulated(made, cluster, on, burst_bytes=size) for size in (0, burst))
    saved = np.diff(without.end_seconds[:, 0] - with_burst.end_seconds[:, 0], prepend=0.0)
    np.testing.assert_allclose(saved[[0, 3]], 0.5, atol=1e-6)
    # The latency of a call is a pause, too.
    latency = on.link.latency_seconds + on.call_latency_seconds
    assert saved[1] < 2 * latency + 1e-6
    assert 0.25 <= saved[2] < 0.25 + 2 * latency + 1e-6
