"""The operations of a schedule, and how they follow from what a worker has recorded."""

from dataclasses import dataclass

from thinwire.trace.recorder import NO_CALL, NS, SERVER, TRANSPORT, WAIT, Recorder, Span


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


@dataclass(frozen=True, slots=True)
class Wait:
    """The worker waits for the answer to a call, perhaps of an earlier step."""

    call: int


Operation = Compute | Post | Wait
Step = list[Operation]


def steps_of(recorder: Recorder) -> list[Step]:
    """The operations of each step that a worker has recorded."""
    spans = [Span(*span) for span in recorder.spans]
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
