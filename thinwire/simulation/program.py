"""What workers do: the operations of their recorded steps, and the programs of those that are simulated."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from thinwire.base.errors import UserError
from thinwire.base.placement import Cluster
from thinwire.trace.recorder import HARNESS, NO_CALL, NS, SERVER, TRANSPORT, WAIT, Recorder, Span


@dataclass(frozen=True, slots=True)
class Compute:
    """The worker computes."""

    kind: str  # one of `thinwire.trace.recorder.KINDS` except `wait`; only a calibration adds `transport`
    name: str  # of a layer, a parameter, a hook or a function
    seconds: float


@dataclass(frozen=True, slots=True)
class Post:
    """The worker hands a call over, and goes on."""

    call: int  # its number among the calls of this worker
    channel: str
    members: tuple[int, ...]  # the workers of the channel, in the order of their ranks
    verb: str
    partner: int  # the rank of a broadcast's source, of a server's worker, or of a message's other end
    ragged: bool
    sent_bytes: int  # that this worker hands over
    received_bytes: int  # of the answer; of a gather, without this worker's own part
    server_seconds: float  # that a server computes before it answers
    after: tuple[int, ...] = ()  # the numbers of the calls for whose end it is held back
    rank: int = 0  # of this worker among the members
    key: str = ""  # of a `push_pull`


@dataclass(frozen=True, slots=True)
class Wait:
    """The worker waits for the answer to a call, perhaps of an earlier step."""

    call: int


MESSAGES = ("send", "receive")  # the verbs of calls with one other worker
Operation = Compute | Post | Wait
Step = list[Operation]


def steps_of(recorder: Recorder) -> list[Step]:
    """The operations of each step that a worker has recorded."""
    spans = recorder.spans
    steps: list[Step] = [[] for _ in range(max((span.step for span in spans), default=-1) + 1)]
    servers = _server_seconds(spans)
    posted = set()
    for span in spans:
        kind, name, call = span.activity
        if span.step < 0:
            continue
        step = steps[span.step]
        if kind == TRANSPORT:
            # Where a server interrupts a transport, there are several spans of one call.
            if call not in posted:
                posted.add(call)
                step.append(_post(recorder, call, servers.get(call, 0.0)))
        elif kind == WAIT:
            step.append(Wait(call))
        elif kind != SERVER:
            step.append(Compute(kind, name, (span.end_ns - span.begin_ns) * NS))
    return steps


def _post(recorder: Recorder, number: int, server_seconds: float) -> Post:
    call = recorder.calls[number]
    return Post(
        number,
        call.channel,
        call.members,
        call.verb,
        call.partner,
        call.ragged,
        sum(call.sent_bytes.values()),
        sum(call.received_bytes.values()),
        server_seconds + sum(end - begin for _, _, begin, end in call.server_spans) * NS,
        call.after,
        call.members.index(recorder.worker),
        call.key,
    )


def _server_seconds(spans: list[Span]) -> dict[int, float]:
    """The seconds that servers have computed inside each call."""
    seconds: dict[int, float] = {}
    inside = NO_CALL
    for span in spans:
        if span.activity.kind == TRANSPORT:
            inside = span.activity.call
        elif span.activity.kind == SERVER:
            seconds[inside] = seconds.get(inside, 0.0) + (span.end_ns - span.begin_ns) * NS
    return seconds


@dataclass(frozen=True, slots=True)
class Work:
    """The worker computes."""

    seconds: float


@dataclass(frozen=True, slots=True)
class HandOver:
    """The worker hands over its next call on a channel, and goes on."""

    channel: str
    verb: str
    partner: int  # a rank; for a message, how many ranks further the other end is, around the channel
    ragged: bool
    push_bytes: int
    pull_bytes: int
    server_seconds: float


@dataclass(frozen=True, slots=True)
class Hold:
    """The call that is handed over next does not begin before this one has ended, counted as in `Await`."""

    call: int


@dataclass(frozen=True, slots=True)
class Await:
    """The worker waits for one of its calls, which are counted from 0 through the whole program."""

    call: int


Instruction = Work | HandOver | Hold | Await
Program = list[list[Instruction]]


def program_of(steps: Sequence[Step], length: int | None = None) -> Program:
    """Turn the steps of a schedule into a program of any length; the default is one round.

    The steps are repeated in turn. Of what the harness does, only the beginning of a step is counted, where
    it makes a batch. Evaluations and records are no part of a step's time.

    Raises:
        UserError: there is nothing to repeat.
    """
    if not steps:
        raise UserError("a schedule has no steps to repeat: record more steps")
    posts = [operation.call for step in steps for operation in step if isinstance(operation, Post)]
    # Calls that were handed over before the first step have counterparts in the round before.
    place = {call: number for number, call in enumerate(posts)}
    awaited = {operation.call for step in steps for operation in step if isinstance(operation, Wait)}
    before = sorted(awaited - place.keys())
    after = [call for call in posts if call not in awaited]
    place |= {old: place[new] - len(posts) for old, new in zip(before[::-1], after[::-1])}
    program: Program = []
    for number in range(len(steps) if length is None else length):
        turn, index = divmod(number, len(steps))
        program.append(_step(steps[index], place, turn * len(posts)))
    return program


def _step(step: Step, place: dict[int, int], earlier: int) -> list[Instruction]:
    made: list[Instruction] = []
    begun = False
    for operation in step:
        if isinstance(operation, Compute):
            if operation.kind == HARNESS and begun:
                continue
            begun = begun or operation.kind not in (HARNESS, TRANSPORT)
            _add_work(made, operation.seconds)
        elif isinstance(operation, Post):
            made += [Hold(place[call] + earlier) for call in operation.after if call in place]
            partner = operation.partner
            if operation.verb in MESSAGES:
                partner = (partner - operation.rank) % len(operation.members)
            made.append(
                HandOver(
                    operation.channel,
                    operation.verb,
                    partner,
                    operation.ragged,
                    operation.sent_bytes,
                    operation.received_bytes if operation.verb == "push_pull" else 0,
                    operation.server_seconds,
                )
            )
        else:
            call = place.get(operation.call)
            # In the first round, there is nothing to wait for.
            if call is not None and call + earlier >= 0:
                made.append(Await(call + earlier))
    return made


def _add_work(made: list[Instruction], seconds: float) -> None:
    """Add work, as one operation with the work just before it."""
    if made and isinstance(made[-1], Work):
        seconds += made.pop().seconds  # type: ignore[union-attr]
    if seconds:
        made.append(Work(seconds))


Floats = NDArray[np.float64]


def kind_of_call(verb: str, ragged: bool) -> str:
    """The verb; a gather of ragged payloads is a kind of its own, because it goes point to point."""
    return "ragged gather" if verb == "gather" and ragged else verb


def group_of(cluster: Cluster, worker: int, channel: str) -> range:
    """The members of a worker's group on a channel, as `Cluster.groups` has them."""
    node, place = divmod(worker, cluster.workers_per_node)
    first = node * cluster.workers_per_node
    if channel == "node":
        return range(first, first + cluster.workers_per_node)
    if channel == "across":
        return range(place, cluster.workers, cluster.workers_per_node)
    return range(cluster.workers)


def groups_on(cluster: Cluster, channel: str) -> list[range]:
    """All groups of a channel: of each node, of each place on the nodes, or all workers."""
    opposite = {"node": "across", "across": "node"}
    firsts = group_of(cluster, 0, opposite[channel]) if channel in opposite else range(1)
    return [group_of(cluster, first, channel) for first in firsts]


@dataclass(slots=True)
class Carried:
    """A call, as a worker that has made it sees it."""

    begin: float = 0.0  # when the last member has made it; valid once `end` is known
    end: float = -1.0  # below 0: not known
    served: float = 0.0  # seconds at the server, waiting and computing
    blocked: list[int] = field(default_factory=list)  # workers that wait for it


Call = TypeVar("Call", bound=Carried)


class Carrier(Protocol[Call]):
    """Carries calls."""

    sent_bytes: int
    between_nodes_bytes: int

    def hand_over(self, worker: int, what: HandOver, now: float, after: Sequence[Call] = ()) -> Call:
        """Take over the next call of a worker on a channel, which begins when those in `after` have ended."""

    def carry(self) -> list[int] | None:
        """Carry what begins first; no worker can run on before that.

        Returns:
            The workers that need not wait any longer; None: there is nothing to carry.
        """
