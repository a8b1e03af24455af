"""Which calls of several workers belong together, and what each of them hands over."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from thinwire.trace.recorder import TRANSPORT
from thinwire.trace.trace_file import COMPUTE, SERVER_TRACK

Row = dict[str, Any]  # of a table of a trace
# What calls that belong together have in common: the number of their group, sender and receiver if it is a
# message, and how many such calls came before.
Place = tuple[int, int, int, int]
_NO_MESSAGE = (-1, -1)


class MatchedCalls:
    """The calls of a trace, with their partners.

    All members of a channel make the same collective calls in the same order. Messages from one worker to
    another arrive in the order in which they were sent.
    """

    def __init__(self, spans: Iterable[Row], calls: Iterable[Row]) -> None:
        """Match the calls; `spans` and `calls` are the rows of the tables of a trace."""
        self.groups: dict[tuple[str, tuple[int, ...]], int] = {}  # numbers, by channel and members
        self._places: dict[tuple[int, int], Place] = {}  # by worker and number of the call
        self._tags: dict[Place, int] = {}
        self._sent: dict[tuple[Place, int], int] = {}  # bytes, by worker
        self._server_seconds: defaultdict[Place, float] = defaultdict(float)
        before: Counter[tuple[int, ...]] = Counter()
        for call in calls:
            group = self.groups.setdefault((call["channel"], tuple(call["members"])), len(self.groups))
            route = (group, *_route(call))
            place = (*route, before[(call["worker"], *route)])
            before[(call["worker"], *route)] += 1
            self._places[call["worker"], call["number"]] = place
            # Of two numbers: a call to a server has an answer.
            self._tags.setdefault(place, 2 * len(self._tags))
            self._sent[place, call["worker"]] = call["sent_bytes"]
        for span, number in serving_spans(spans):
            seconds = span["end_seconds"] - span["begin_seconds"]
            self._server_seconds[self._places[span["worker"], number]] += seconds

    def group(self, call: Row) -> int:
        """The number of the group of workers of a call's channel."""
        return self.groups[call["channel"], tuple(call["members"])]

    def tag(self, call: Row) -> int:
        """An even number that the calls which belong together share with no other."""
        return self._tags[self._place(call)]

    def sent_bytes(self, call: Row, worker: int) -> int:
        """What a member of the call hands over; if its calls are not in the trace, as much as this worker."""
        own: int = call["sent_bytes"]
        return self._sent.get((self._place(call), worker), own)

    def server_seconds(self, call: Row) -> float:
        """How long the server has computed before it answered."""
        return self._server_seconds[self._place(call)]

    def _place(self, call: Row) -> Place:
        return self._places[call["worker"], call["number"]]


def serving_spans(spans: Iterable[Row]) -> list[tuple[Row, int]]:
    """The spans in which a server computes, each with the number of the call that it serves.

    In one process, the worker that makes the last of all calls also runs the server. So all spans between
    parts of one hand-over are the server's.
    """
    found: list[tuple[Row, int]] = []
    between: list[Row] = []
    last = None  # the call whose hand-over may go on
    for span in spans:
        if span["track"] == SERVER_TRACK:
            found.append((span, span["call"]))
        elif span["activity"] == TRANSPORT:
            if last == (span["worker"], span["call"]):
                found += [(each, span["call"]) for each in between]
            last, between = (span["worker"], span["call"]), []
        elif span["track"] == COMPUTE:
            between.append(span)
    return found


def _route(call: Row) -> tuple[int, int]:
    """Sender and receiver of a message."""
    own, partner = call["worker"], call["members"][call["partner"]]
    return {"send": (own, partner), "receive": (partner, own)}.get(call["verb"], _NO_MESSAGE)
