"""When workers of any programs end their steps, simulated in one of two ways, and what they wait for.

The event loop carries calls in the order in which they begin. A worker runs until it waits for a call whose
end is not known yet. When all workers wait, the `Carrier` carries what begins first. It is safe to carry it
then: whatever a waiting worker does later comes later. So links and buses serve phases in the order in which
these begin.

The recurrence computes the same, operation by operation for all workers at once, if they have one program. It
carries calls in the order of the program. The two orders differ if a group of workers can overtake another
group on the same links, or calls on one channel those on another one. `recurrence_applies` excludes both.
"""

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic

import numpy as np

from thinwire.base.errors import UserError
from thinwire.base.placement import Cluster
from thinwire.simulation.call_seconds import CALLS_AT_ONCE, Integers, Load, Loads
from thinwire.simulation.calls_on_links import CallsOnLinks, standing_for
from thinwire.simulation.program import (
    MESSAGES,
    Await,
    Call,
    Carrier,
    Floats,
    HandOver,
    Hold,
    Instruction,
    Program,
    Work,
    groups_on,
)


@dataclass(frozen=True, eq=False)
class Timeline:
    """Of all workers; arrays are [steps, workers], in seconds."""

    end_seconds: Floats
    """When a worker ends a step, from the start on."""
    compute_seconds: Floats
    """How long it computes in a step."""
    others_seconds: Floats
    """How long it waits until the last member has made the call that it waits for."""
    server_seconds: Floats
    """How long it waits while a server computes or serves other calls."""
    communication_seconds: Floats
    """How long it waits for bytes. This communication is *exposed*: no computation hides it."""
    sent_bytes: int
    """By all workers together."""
    between_nodes_bytes: int
    """Of these, between nodes."""

    @property
    def seconds(self) -> float:
        """Until the last worker has ended the last step."""
        return float(self.end_seconds[-1].max())

    @property
    def mean_step_seconds(self) -> float:
        """The mean over the steps."""
        return self.seconds / len(self.end_seconds)

    @property
    def step_seconds(self) -> Floats:
        """[steps]: time between the ends of consecutive steps; a step ends with its last worker."""
        return np.diff(self.end_seconds.max(axis=1), prepend=0.0)


def simulate(programs: Sequence[Program], cluster: Cluster, loads: Loads, pace: Floats) -> Timeline:
    """Simulate workers on a described cluster; workers of one role may share a program.

    The pace, [steps, workers], is a factor of the computation's seconds.

    Raises:
        UserError: the workers wait for each other for ever.
    """
    if recurrence_applies(programs, cluster):
        return by_recurrence(programs[0], cluster, loads, pace)
    return by_events(programs, cluster, loads, pace)


def by_events(programs: Sequence[Program], cluster: Cluster, loads: Loads, pace: Floats) -> Timeline:
    """As `simulate`, with the event loop."""
    stands_for = standing_for(programs, cluster, loads, pace)
    places = np.arange(cluster.workers_per_node)
    workers = (stands_for[:, None] * cluster.workers_per_node + places).flatten()
    return run(programs, CallsOnLinks(cluster, loads, stands_for), pace, workers)


def run(
    programs: Sequence[Program], carrier: Carrier[Call], pace: Floats, stands_for: Integers | None = None
) -> Timeline:
    """Simulate workers whose calls a `Carrier` carries.

    Args:
        programs: of all workers.
        carrier: knows those that are simulated by their numbers among these.
        pace: as in `simulate`.
        stands_for: [workers]: the worker that is simulated for each, if these are not all.

    Raises:
        UserError: the workers wait for each other for ever.
    """
    if stands_for is None:
        stands_for = np.arange(len(programs))
    simulated, number_of = np.unique(stands_for, return_inverse=True)
    own = [programs[worker] for worker in simulated]
    return _EventLoop(own, carrier, pace[:, simulated]).run(number_of)


class _EventLoop(Generic[Call]):
    def __init__(self, programs: Sequence[Program], carrier: Carrier[Call], pace: Floats) -> None:
        self._workers, self._carrier = len(programs), carrier
        self._pace = pace.T.tolist()
        flat = {key: _flat(program) for key, program in {id(p): p for p in programs}.items()}
        self._operations = [flat[id(program)] for program in programs]
        # Of each worker.
        self._place = [0] * self._workers  # of its next operation
        self._now = [0.0] * self._workers
        self._made: list[list[Call]] = [[] for _ in programs]
        self._waits = [[0.0] * 4 for _ in programs]
        self._rows: list[list[tuple[float, ...]]] = [[] for _ in programs]

    def run(self, number_of: Integers) -> Timeline:
        """Simulate; `number_of` gives for each worker the number of the one that stands for it: [workers]."""
        ready: list[int] | None = list(range(self._workers))
        while ready is not None:
            while ready:
                self._advance(ready.pop())
            ready = self._carrier.carry()
        if any(place < len(own) for place, own in zip(self._place, self._operations)):
            raise UserError(
                "the simulated workers wait for each other for ever: the schedules of their roles differ"
            )
        rows = np.array(self._rows)[number_of]  # [workers, steps, 5]
        ends, computed, others, served, communicated = rows.transpose(2, 1, 0)
        sent, between = self._carrier.sent_bytes, self._carrier.between_nodes_bytes
        return Timeline(ends, computed, others, served, communicated, sent, between)

    def _advance(self, worker: int) -> None:
        """Run a worker until it waits for a call whose end is not known, or until its end."""
        operations, place = self._operations[worker], self._place[worker]
        now, made = self._now[worker], self._made[worker]
        pace, rows, hand_over = self._pace[worker], self._rows[worker], self._carrier.hand_over
        step, last = len(rows), len(operations)
        waits = self._waits[worker]
        held: list[Call] = []  # calls for whose end the next one is held back
        while place < last:
            operation = operations[place]
            if isinstance(operation, Work):
                seconds = operation.seconds * pace[step]
                now += seconds
                waits[0] += seconds
            elif isinstance(operation, HandOver):
                made.append(hand_over(worker, operation, now, held))
                held = []
            elif isinstance(operation, Hold):
                held.append(made[operation.call])
            elif isinstance(operation, Await):
                call = made[operation.call]
                if call.end < 0:
                    call.blocked.append(worker)
                    break
                idle = call.end - now
                if idle > 0:
                    others = min(max(call.begin - now, 0.0), idle)
                    server = min(call.served, idle - others)
                    waits[1] += others
                    waits[2] += server
                    waits[3] += idle - others - server
                    now = call.end
            else:
                rows.append((now, *waits))
                waits[:] = (0.0, 0.0, 0.0, 0.0)
                step += 1
            place += 1
        self._place[worker], self._now[worker] = place, now


def _flat(program: Program) -> list[Instruction | None]:
    """The operations of a program in one list; None ends each step."""
    return [operation for step in program for operation in (*step, None)]


def recurrence_applies(programs: Sequence[Program], cluster: Cluster) -> bool:
    """Can these programs be simulated by the recurrence?

    All need to be one. There may be no servers, whose answers could come after later calls, and no messages.
    No calls may be held back, and no groups may share the links of nodes. Between nodes only one channel may
    be used. Loads whose calls have several phases, between which others go, need `by_events`.
    """
    if any(program is not programs[0] for program in programs):
        return False
    calls = [operation for step in programs[0] for operation in step if isinstance(operation, HandOver)]
    if any(isinstance(operation, Hold) for step in programs[0] for operation in step):
        return False
    if any(call.verb in ("push_pull", *MESSAGES) for call in calls):
        return False
    sizes = {channel: len(members) for channel, members in cluster.groups(0).items()}
    channels = {call.channel for call in calls if sizes[call.channel] > 1}
    if cluster.nodes > 1 and len(channels) > 1:
        return False
    share_links = cluster.workers_per_node > 1 and cluster.nodes > 1
    return not share_links or all(call.channel != "across" for call in calls)


def by_recurrence(program: Program, cluster: Cluster, loads: Loads, pace: Floats) -> Timeline:
    """As `simulate`, with one program for all."""
    return _Recurrence(cluster, loads).run(program, pace)


class _Recurrence:
    def __init__(self, cluster: Cluster, loads: Loads) -> None:
        self._cluster, self._loads = cluster, loads
        self._links = loads.free_links()
        # A heap of the ends of calls under way, by the channel and the index of the group.
        self._under_way: dict[tuple[str, int], list[float]] = {}
        self._sent = self._between = 0

    def run(self, program: Program, pace: Floats) -> Timeline:
        now = np.zeros(self._cluster.workers)
        calls: list[tuple[Floats, Floats]] = []  # of each: when it begins and ends, [workers]
        parts = np.zeros((5, len(program), self._cluster.workers))
        ends, computed, others, served, communicated = parts  # no server: see `recurrence_applies`
        for number, step in enumerate(program):
            for operation in step:
                match operation:
                    case Work(seconds):
                        spent = seconds * pace[number]
                        now = now + spent
                        computed[number] += spent
                    case HandOver():
                        calls.append(self._carry(operation, now))
                    case Await(call):
                        begin, end = calls[call]
                        idle = np.maximum(end - now, 0.0)
                        for_others = np.minimum(np.maximum(begin - now, 0.0), idle)
                        others[number] += for_others
                        communicated[number] += idle - for_others
                        now = now + idle
            ends[number] = now
        return Timeline(ends, computed, others, served, communicated, self._sent, self._between)

    def _carry(self, what: HandOver, now: Floats) -> tuple[Floats, Floats]:
        """Carry the calls of all groups on a channel; the group that begins first is the first."""
        begin, end = now.copy(), now.copy()
        groups = groups_on(self._cluster, what.channel)
        begins = np.array([now[_slice(members)].max() for members in groups])
        for index in np.argsort(begins, kind="stable").tolist():
            load = self._loads.of(what, groups[index])
            members = _slice(groups[index])
            begin[members] = begins[index]
            end[members] = self._carry_one(what.channel, index, load, float(begins[index]))
            self._sent += load.sent_bytes
            self._between += load.between_nodes_bytes
        return begin, end

    def _carry_one(self, channel: str, index: int, load: Load, begin: float) -> float:
        """The end of the call of one group; it may have to wait for earlier calls."""
        if not load.phases:
            return begin
        (phase,) = load.phases
        if not load.queued:
            return self._links.carry(phase, begin)
        under_way = self._under_way.setdefault((channel, index), [0.0] * CALLS_AT_ONCE)
        end = self._links.carry(phase, max(begin, under_way[0]))
        heapq.heapreplace(under_way, end)
        return end


def _slice(members: range) -> slice:
    return slice(members.start, members.stop, members.step)
