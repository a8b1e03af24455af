"""A trace as Chrome JSON trace events, which ui.perfetto.dev and chrome://tracing open.

Each worker is a process. Its threads are tracks: `compute`, one for the communication of each channel, and
`server`. An arrow leads from each hand-over of a call to the wait for its answer. The form is described in
"Trace Event Format", https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from thinwire.base.files import aside
from thinwire.trace.recorder import NO_CALL, TRANSPORT, WAIT
from thinwire.trace.trace_file import COMPUTE, SERVER_TRACK, Trace

Event = dict[str, object]
Row = dict[str, Any]  # of a table of a trace


class _Slice(NamedTuple):
    """A complete event, without its track; in nanoseconds, so that neighbours do not overlap."""

    name: str
    category: str
    begin_ns: int
    end_ns: int
    args: dict[str, object]

    def on(self, worker: int, thread: int) -> Event:
        times = {"ts": self.begin_ns / 1e3, "dur": (self.end_ns - self.begin_ns) / 1e3}
        about = {"name": self.name, "cat": self.category, **times, "args": self.args}
        return {"ph": "X", **about, "pid": worker, "tid": thread}


def write(path: Path, trace: Trace) -> None:
    """Write a trace as Chrome JSON.

    Raises:
        CannotWrite: the disk is full, or writing is not permitted.
    """
    with aside(path) as scratch, scratch.open("w", encoding="utf-8") as file:
        json.dump({"traceEvents": list(events(trace)), "displayTimeUnit": "ms"}, file)


def events(trace: Trace) -> Iterator[Event]:
    """The events of all workers; `ts` and `dur` are in microseconds from the first span."""
    spans, calls = trace.spans.to_pylist(), trace.calls.to_pylist()
    first = min((span["begin_seconds"] for span in spans), default=0.0)
    spans_of, calls_of = _by_worker(spans), _by_worker(calls)
    arrows = count(1)
    for worker in sorted(spans_of):
        yield _metadata(worker, 0, "process_name", name=f"worker {worker}")
        yield _metadata(worker, 0, "process_sort_index", sort_index=worker)
        yield from _of_worker(worker, spans_of[worker], calls_of[worker], first, arrows)


def _by_worker(rows: Iterable[Row]) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["worker"]].append(row)
    return found


def _of_worker(
    worker: int, spans: list[Row], calls: list[Row], first: float, arrows: Iterator[int]
) -> Iterator[Event]:
    own = [span for span in spans if span["track"] == COMPUTE]
    waited = {span["call"]: span for span in own if span["activity"] == WAIT}
    tracks = {COMPUTE: [_of_span(span, first) for span in own]}
    for call in calls:
        if slice_ := _of_call(call, waited.get(call["number"]), first):
            tracks.setdefault(f"communication {call['channel']}", []).append(slice_)
    served = [_of_span(span, first) for span in spans if span["track"] == SERVER_TRACK]
    if served:
        tracks[SERVER_TRACK] = served
    threads = count()
    for name, slices in tracks.items():
        for number, lane in enumerate(_lanes(slices), 1):
            thread = next(threads)
            yield _metadata(worker, thread, "thread_name", name=name if number == 1 else f"{name} {number}")
            yield _metadata(worker, thread, "thread_sort_index", sort_index=thread)
            yield from (slice_.on(worker, thread) for slice_ in lane)
    # The compute track is thread 0, because one worker's own spans never overlap.
    yield from _arrows(worker, tracks[COMPUTE], arrows)


def _metadata(worker: int, thread: int, what: str, **args: object) -> Event:
    return {"ph": "M", "ts": 0, "pid": worker, "tid": thread, "name": what, "args": args}


def _slice(name: str, category: str, begin: float, end: float, **args: object) -> _Slice:
    return _Slice(name, category, round(begin * 1e9), round(end * 1e9), args)


def _of_span(span: Row, first: float) -> _Slice:
    kind, name = span["activity"], span["name"]
    call = NO_CALL if span["call"] is None else span["call"]
    begin, end = span["begin_seconds"] - first, span["end_seconds"] - first
    return _slice(f"{kind} {name}".strip(), kind, begin, end, step=span["step"], call=call)


def _of_call(call: Row, wait: Row | None, first: float) -> _Slice | None:
    """A call on its way: until its answer was there, or else until the worker had it; None if it had none."""
    begin = call["issued_seconds"] if call["begun_seconds"] is None else call["begun_seconds"]
    end = call["ended_seconds"]
    if end is None:
        if wait is None:
            return None
        end = wait["end_seconds"]
    about = {name: call[name] for name in ("step", "members", "sent_bytes", "received_bytes")}
    name = f"{call['verb']} {call['key']}".strip()
    begin, end = begin - first, end - first
    return _slice(name, "communication", begin, max(begin, end), call=call["number"], **about)


def _lanes(slices: list[_Slice]) -> list[list[_Slice]]:
    """Spread slices over as few threads as possible, because those of one thread may not overlap."""
    lanes: list[list[_Slice]] = []
    for slice_ in sorted(slices, key=lambda slice_: slice_.begin_ns):
        for lane in lanes:
            if lane[-1].end_ns <= slice_.begin_ns:
                lane.append(slice_)
                break
        else:
            lanes.append([slice_])
    return lanes


def _arrows(worker: int, slices: list[_Slice], numbers: Iterator[int]) -> Iterator[Event]:
    """From the first span of each hand-over to the first wait for it."""
    begins: dict[object, _Slice] = {}
    ends: dict[object, _Slice] = {}
    for slice_ in slices:
        found = {TRANSPORT: begins, WAIT: ends}.get(slice_.category)
        if found is not None:
            found.setdefault(slice_.args["call"], slice_)
    for call in [call for call in begins if call in ends]:
        common = {"name": "call", "cat": "call", "id": next(numbers), "pid": worker, "tid": 0}
        yield {"ph": "s", "ts": begins[call].begin_ns / 1e3, **common}
        yield {"ph": "f", "bp": "e", "ts": ends[call].begin_ns / 1e3, **common}
