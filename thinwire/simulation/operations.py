"""What workers do in a step: operations, and which workers do the same, so that one stands for all of a role.

Workers may differ by their place: the first worker of all, the first worker of a node, every other one. They
may also differ because a call names them as its partner: the source of a broadcast, the worker of a server,
or the other end of a message. A worker that is a partner in the same steps as another one is taken to behave
like it. So many workers with a server each need not be as many roles. A worker that becomes a partner only
after the last recorded step is not told apart.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

from thinwire.base.errors import UserError
from thinwire.base.placement import Cluster
from thinwire.trace.recorder import NO_CALL, NS, SERVER, TRANSPORT, WAIT, RecordedCall, Recorder, Span


@dataclass(frozen=True, slots=True)
class Compute:
    """The worker computes."""

    kind: str  # one of `thinwire.trace.recorder.KINDS`, except `transport` and `wait`
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


MOST_MIRRORED = 64
# Sizes of workers of one role may differ by so much, for instance where a tensor cannot be divided evenly.
SIZE_TOLERANCE = 0.02
_WITH_PARTNERS = ("broadcast", "push_pull", *MESSAGES)

Calls = list[RecordedCall]


@dataclass(frozen=True)
class Role:
    """Workers that behave alike."""

    worker: int  # the one that was mirrored
    workers: tuple[int, ...]  # all of them, in the order of their ranks


def roles(cluster: Cluster, calls_of: Callable[[int], Calls]) -> list[Role]:
    """The roles of a cluster, by the lowest rank of their workers.

    Args:
        cluster: whose workers are divided.
        calls_of: mirrors a worker and returns its calls; is used for at least one worker of each role.

    Raises:
        UserError: too many workers differ from each other.
    """
    mirrored: dict[int, Calls] = {}
    groups = _groups(cluster, [])
    while new := [group[0] for group in groups if mirrored.keys().isdisjoint(group)]:
        for worker in new:
            if len(mirrored) == MOST_MIRRORED:
                raise UserError(
                    f"more than {MOST_MIRRORED} of the {cluster.workers} workers differ from each other, so "
                    "the schedule of all does not follow from a few of them: choose fewer steps or workers"
                )
            mirrored[worker] = calls_of(worker)
        groups = _groups(cluster, [mirrored[first] for first in _distinct(mirrored)])
    return _merged(groups, mirrored)


def _groups(cluster: Cluster, recorded: list[Calls]) -> list[tuple[int, ...]]:
    """Workers with places of one kind that are partners in the same steps of these calls."""
    partners = [_partners(calls) for calls in recorded]
    divided: dict[object, list[int]] = {}
    for worker in range(cluster.workers):
        node, place = divmod(worker, cluster.workers_per_node)
        ranks = {"world": worker, "node": place, "across": node}
        named = tuple(
            frozenset(found.get((channel, rank), Counter()).items())
            for found in partners
            for channel, rank in ranks.items()
        )
        divided.setdefault((node == 0, place == 0, named), []).append(worker)
    return [tuple(group) for group in divided.values()]


def _partners(calls: Calls) -> dict[tuple[str, int], Counter[tuple[int, str]]]:
    """By channel and rank there: in which steps, and how often, a call of a verb names it."""
    found: dict[tuple[str, int], Counter[tuple[int, str]]] = {}
    for call in calls:
        if call.verb in _WITH_PARTNERS and len(call.members) > 1:
            found.setdefault((call.channel, call.partner), Counter())[call.step, call.verb] += 1
    return found


def _distinct(mirrored: dict[int, Calls]) -> list[int]:
    """Of the mirrored workers, the first one of each behaviour."""
    found: list[int] = []
    for worker in mirrored:
        if not any(alike(worker, mirrored[worker], other, mirrored[other]) for other in found):
            found.append(worker)
    return found


def _merged(groups: list[tuple[int, ...]], mirrored: dict[int, Calls]) -> list[Role]:
    """One role for all groups whose mirrored workers behave alike."""
    found: list[Role] = []
    for group in groups:
        worker = next(member for member in group if member in mirrored)
        for number, role in enumerate(found):
            if alike(worker, mirrored[worker], role.worker, mirrored[role.worker]):
                found[number] = replace(role, workers=tuple(sorted((*role.workers, *group))))
                break
        else:
            found.append(Role(worker, group))
    return sorted(found, key=lambda role: role.workers)


def alike(worker: int, calls: Calls, other: int, others: Calls) -> bool:
    """Do two workers make the same calls in the same steps?

    The partners of their messages are compared as ranks, and as distances from each worker: one of the two
    must agree. Sizes may differ a little, and those of ragged payloads by any amount.
    """
    if len(calls) != len(others) or not all(map(_same, calls, others)):
        return False
    return all(a.partner == b.partner for a, b in zip(calls, others)) or all(
        _from(worker, a) == _from(other, b) for a, b in zip(calls, others)
    )


def _same(call: RecordedCall, other: RecordedCall) -> bool:
    """Are the calls the same, whoever their partners are?"""
    one, two = (
        (made.step, made.channel, made.verb, made.ragged, len(made.members)) for made in (call, other)
    )
    sizes = [sum(made.sent_bytes.values()) for made in (call, other)]
    return one == two and (call.ragged or max(sizes) - min(sizes) <= SIZE_TOLERANCE * max(sizes))


def _from(worker: int, call: RecordedCall) -> int:
    """The partner of a call; for a message, its distance from the worker in ranks, around the ring."""
    if call.verb not in MESSAGES:
        return call.partner
    return (call.partner - call.members.index(worker)) % len(call.members)
