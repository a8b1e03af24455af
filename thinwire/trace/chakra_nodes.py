"""The graph of one worker's operations, for a Chakra execution trace.

What the worker does itself is a chain of nodes. A call hangs on the node that hands it over. The node after
the wait for the answer depends on it. Means, gathers of equal payloads and broadcasts are collectives. All
other calls are sends and receives.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from thinwire.trace.chakra_schema import CollectiveCommType, NodeType
from thinwire.trace.matched_calls import MatchedCalls, Row, serving_spans
from thinwire.trace.recorder import TRANSPORT, WAIT
from thinwire.trace.trace_file import COMPUTE

_COLLECTIVES = {
    "mean": CollectiveCommType.ALL_REDUCE,
    "gather": CollectiveCommType.ALL_GATHER,
    "broadcast": CollectiveCommType.BROADCAST,
}


@dataclass
class Operation:
    """A node."""

    number: int  # its place among the nodes of the worker; a node depends only on earlier ones
    name: str
    kind: NodeType
    after: list[int]  # the nodes that must have ended before, for the order
    needs: list[int]  # those whose data it needs
    begin_seconds: float
    end_seconds: float
    integers: dict[str, int] = field(default_factory=dict)
    group: int | None = None  # of a communication: the number of its group


class WorkerGraph:
    """Builds the nodes of one worker."""

    def __init__(self, worker: int, matched: MatchedCalls) -> None:
        self.operations: list[Operation] = []
        self._worker, self._matched = worker, matched
        self._last: list[int] = []  # the node that ends the chain so far; none at the beginning
        self._awaited: list[int] = []  # nodes that the next one of the chain waits for
        self._answers: dict[int, list[int]] = {}  # nodes that deliver the answer, by call

    def add(self, spans: Iterable[Row], calls: Iterable[Row]) -> None:
        """Add all that the worker does.

        Args:
            spans: of the worker, in the order of time.
            calls: of the worker, in the order of their numbers.
        """
        by_number = {call["number"]: call for call in calls}
        serving = {id(span) for span, _ in serving_spans(spans)}
        for span in spans:
            if span["track"] != COMPUTE or id(span) in serving:
                continue
            if span["activity"] == WAIT:
                self._awaited += self._answers.get(span["call"], [])
                continue
            name = f"{span['activity']} {span['name']}".strip()
            times = span["begin_seconds"], span["end_seconds"]
            node = self._node(name, NodeType.COMP_NODE, self._last, self._awaited, times)
            self._last, self._awaited = [node], []
            if span["activity"] == TRANSPORT and span["call"] not in self._answers:
                self._answers[span["call"]] = self._communicate(by_number[span["call"]], node)

    def _communicate(self, call: Row, handed_over: int) -> list[int]:
        """Add the nodes of a call; returns those that deliver its answer."""
        members, partner = call["members"], call["members"][call["partner"]]
        others = [member for member in members if member != self._worker]
        if call["verb"] == "push_pull":
            return self._push_pull(call, handed_over, partner, others)
        if not others or (call["verb"] in ("send", "receive") and partner == self._worker):
            return []
        if call["verb"] == "send":
            self._send(call, handed_over, partner, call["sent_bytes"])
            return []
        if call["verb"] == "receive":
            return [self._receive(call, handed_over, partner, call["received_bytes"])]
        if call["ragged"]:
            for other in others:
                self._send(call, handed_over, other, call["sent_bytes"])
            return [
                self._receive(call, handed_over, other, self._matched.sent_bytes(call, other))
                for other in others
            ]
        integers = {"comm_type": int(_COLLECTIVES[call["verb"]]), "comm_size": call["sent_bytes"]}
        if call["verb"] == "broadcast":
            integers["comm_src"] = partner
        return [self._communication(call, NodeType.COMM_COLL_NODE, handed_over, integers)]

    def _push_pull(self, call: Row, handed_over: int, server: int, others: list[int]) -> list[int]:
        if server != self._worker:
            pushed = self._send(call, handed_over, server, call["sent_bytes"])
            return [self._receive(call, pushed, server, call["received_bytes"], answer=1)]
        pushes = [
            self._receive(call, handed_over, other, self._matched.sent_bytes(call, other)) for other in others
        ]
        begin, end = _times(call)
        times = max(begin, end - self._matched.server_seconds(call)), end
        name = f"server {call['key']}".strip()
        served = self._node(name, NodeType.COMP_NODE, [handed_over], pushes, times)
        for other in others:
            self._send(call, served, other, call["received_bytes"], answer=1)
        return [served]

    def _send(self, call: Row, after: int, to: int, size: int, answer: int = 0) -> int:
        integers = self._of_message(call, self._worker, to, size, answer)
        return self._communication(call, NodeType.COMM_SEND_NODE, after, integers)

    def _receive(self, call: Row, after: int, source: int, size: int, answer: int = 0) -> int:
        integers = self._of_message(call, source, self._worker, size, answer)
        return self._communication(call, NodeType.COMM_RECV_NODE, after, integers)

    def _of_message(self, call: Row, source: int, to: int, size: int, answer: int) -> dict[str, int]:
        tag = self._matched.tag(call) + answer
        return {"comm_size": size, "comm_src": source, "comm_dst": to, "comm_tag": tag}

    def _communication(self, call: Row, kind: NodeType, after: int, integers: dict[str, int]) -> int:
        name = f"{call['channel']} {call['verb']} {call['key']}".strip()
        node = self._node(name, kind, [after], [], _times(call))
        self.operations[node].integers = {**integers, "comm_priority": 0}
        self.operations[node].group = self._matched.group(call)
        return node

    def _node(
        self, name: str, kind: NodeType, after: list[int], needs: list[int], times: tuple[float, float]
    ) -> int:
        number = len(self.operations)
        self.operations.append(Operation(number, name, kind, list(after), list(needs), *times))
        return number


def _times(call: Row) -> tuple[float, float]:
    """When a call began and ended; it takes no time if the transport does not know."""
    begin = call["issued_seconds"] if call["begun_seconds"] is None else call["begun_seconds"]
    return begin, begin if call["ended_seconds"] is None else max(begin, call["ended_seconds"])
