"""Records what one worker does: its spans and its calls.

A *span* is a piece of time in which a worker does one thing, its *activity*. At any moment it does exactly
one. So its spans follow one another without gaps, and their lengths add up to the whole time.

Without a recorder, nothing is recorded: then each call and each codec only looks whether there is one.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from time import perf_counter_ns
from typing import NamedTuple, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

# The kinds of activities. What is none of the others is the harness's: batches, status, evaluations.
HARNESS, FORWARD, BACKWARD, METHOD = "harness", "forward", "backward", "method"
ENCODE, DECODE, SERVER, OPTIMIZER = "encode", "decode", "server", "optimizer"
TRANSPORT, WAIT = "transport", "wait"
KINDS = (HARNESS, FORWARD, BACKWARD, METHOD, ENCODE, DECODE, SERVER, OPTIMIZER, TRANSPORT, WAIT)
# Ends the name of a backward span that computes the gradient of a layer's inputs alone.
INPUTS = "inputs"
NO_CALL = -1
NS = 1e-9  # seconds in a nanosecond


class Activity(NamedTuple):
    """What a worker does at one moment."""

    kind: str  # one of `KINDS`
    name: str = ""  # of a layer, a parameter, a hook or a function
    call: int = NO_CALL  # the number of the call that is handed over or waited for


class Span(NamedTuple):
    """An activity, from its begin to its end, in nanoseconds of a monotonic clock."""

    step: int  # before the first step: -1
    activity: Activity
    begin_ns: int
    end_ns: int


@dataclass(slots=True)
class RecordedCall:
    """A call, as the worker that made it knows it."""

    step: int
    channel: str
    members: tuple[int, ...]  # the workers of the channel, in the order of their ranks
    verb: str
    key: str  # of a `push_pull`; otherwise empty
    partner: int  # the rank of a broadcast's source, of a server's worker, or of a message's other end
    ragged: bool  # may the payloads of the workers differ in size?
    sent_bytes: dict[str, int]  # what this worker hands over, by kind
    issued_ns: int  # when it is handed over
    received_bytes: dict[str, int] = field(default_factory=dict)  # the answer, by kind; set when it is there
    begun_ns: int = 0  # when its first byte could leave; 0: the transport does not know
    ended_ns: int = 0  # when the answer was there, or the message had left; 0: the transport does not know
    number: int = NO_CALL  # among the calls of this worker
    after: tuple[int, ...] = ()  # the numbers of the calls for whose end it is held back
    server_spans: list[Span] = field(default_factory=list)  # if the server runs in a thread of its own


class Recorder:
    """The spans and calls of one worker."""

    __slots__ = ("_now", "_since", "calls", "current", "spans", "step", "worker")

    def __init__(self, worker: int, now: Callable[[], int] = perf_counter_ns) -> None:
        """Begin to record what a worker does, by a clock in nanoseconds."""
        self.worker = worker
        self.step = -1
        self.spans: list[Span] = []
        self.calls: list[RecordedCall] = []
        self.current = Activity(HARNESS)
        self._now = now
        self._since = now()

    def switch(self, activity: Activity) -> Activity:
        """Begin another activity; returns the one that ends, so that the caller can switch back to it."""
        now, before = self._now(), self.current
        self.spans.append(Span(self.step, before, self._since, now))
        self.current, self._since = activity, now
        return before

    def cut(self, name: str) -> None:
        """End the current span under this name, and go on with the same kind of activity."""
        now, kind = self._now(), self.current.kind
        self.spans.append(Span(self.step, Activity(kind, name), self._since, now))
        self.current, self._since = Activity(kind), now

    def call(self, call: RecordedCall) -> int:
        """Add a call; returns its number."""
        call.number = len(self.calls)
        self.calls.append(call)
        return call.number


# The recorder of the worker that runs now in this thread; None: it is not traced.
recording: ContextVar[Recorder | None] = ContextVar("recording", default=None)


@contextmanager
def on_server_track(call: RecordedCall) -> Iterator[None]:
    """Record what this thread does for a call, apart from what the worker itself does meanwhile."""
    aside = Recorder(call.members[call.partner])
    aside.step = call.step
    token = recording.set(aside)
    try:
        yield
    finally:
        recording.reset(token)
        call.server_spans += [span for span in aside.spans if span.activity.kind != HARNESS]


def recorded(kind: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorate a function: while a traced worker runs it, the worker's activity is of this kind.

    What a server calls is the server's.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        activity = Activity(kind, function.__name__)

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            recorder = recording.get()
            if recorder is None or recorder.current.kind == SERVER:
                return function(*args, **kwargs)
            before = recorder.switch(activity)
            try:
                return function(*args, **kwargs)
            finally:
                recorder.switch(before)

        return call

    return decorate
