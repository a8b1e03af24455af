"""The trace of a run, with the spans and calls of all workers on one clock, and its files.

Times are in seconds from a moment that all workers have in common. docs/traces.md explains each column of
`spans.parquet` and `calls.parquet`.
"""

import socket
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import median
from time import perf_counter_ns
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from thinwire.base.errors import UserError
from thinwire.base.files import aside
from thinwire.trace.recorder import KINDS, NO_CALL, NS, RecordedCall, Recorder, Span

SPANS, CALLS = "spans.parquet", "calls.parquet"
# The tracks: what the worker itself does, and what the server that it hosts does in a thread of its own.
COMPUTE, SERVER_TRACK = "compute", "server"

_NAME = pa.dictionary(pa.int32(), pa.string())
SPAN_COLUMNS = pa.schema(
    [
        pa.field("worker", pa.int32(), nullable=False),
        pa.field("step", pa.int32(), nullable=False),
        pa.field("track", _NAME, nullable=False),
        pa.field("activity", _NAME, nullable=False),
        pa.field("name", _NAME, nullable=False),
        pa.field("call", pa.int32()),
        pa.field("begin_seconds", pa.float64(), nullable=False),
        pa.field("end_seconds", pa.float64(), nullable=False),
    ]
)
CALL_COLUMNS = pa.schema(
    [
        pa.field("worker", pa.int32(), nullable=False),
        pa.field("number", pa.int32(), nullable=False),
        pa.field("step", pa.int32(), nullable=False),
        pa.field("channel", _NAME, nullable=False),
        pa.field("members", pa.list_(pa.int32()), nullable=False),
        pa.field("verb", _NAME, nullable=False),
        pa.field("key", _NAME, nullable=False),
        pa.field("partner", pa.int32(), nullable=False),
        pa.field("ragged", pa.bool_(), nullable=False),
        pa.field("sent_bytes", pa.int64(), nullable=False),
        pa.field("received_bytes", pa.int64(), nullable=False),
        pa.field("issued_seconds", pa.float64(), nullable=False),
        pa.field("begun_seconds", pa.float64()),
        pa.field("ended_seconds", pa.float64()),
    ]
)


class Trace(NamedTuple):
    """What all workers have recorded."""

    spans: pa.Table  # of `SPAN_COLUMNS`; of each worker and track in the order of time
    calls: pa.Table  # of `CALL_COLUMNS`; of each worker in the order of their numbers


def of_recorders(recorders: Iterable[Recorder], zero_ns: int) -> Trace:
    """The trace of some workers, which count from `zero_ns`, in nanoseconds of the recorders' clock."""
    recorders = list(recorders)
    spans = [row for recorder in recorders for row in _spans(recorder, zero_ns)]
    calls = [_call(recorder.worker, call, zero_ns) for recorder in recorders for call in recorder.calls]
    return Trace(_table(spans, SPAN_COLUMNS), _table(calls, CALL_COLUMNS))


def merged(parts: Sequence[Trace]) -> Trace:
    """One trace of all workers, from parts that count from the same moment, in the order of the workers."""
    return Trace(*(pa.concat_tables(tables).unify_dictionaries().combine_chunks() for tables in zip(*parts)))


def write(folder: Path, trace: Trace) -> None:
    """Write a trace into a folder.

    Raises:
        CannotWrite: the disk is full, or writing is not permitted.
    """
    for name, table in ((SPANS, trace.spans), (CALLS, trace.calls)):
        with aside(folder / name) as scratch:
            pq.write_table(table, scratch)


def read(folder: Path) -> Trace:
    """Read a trace from a folder.

    Raises:
        UserError: there is none, or a file is damaged.
    """
    return Trace(_read(folder / SPANS, SPAN_COLUMNS), _read(folder / CALLS, CALL_COLUMNS))


def _read(path: Path, columns: pa.Schema) -> pa.Table:
    try:
        table = pq.read_table(path)
    except FileNotFoundError:
        raise UserError(f"{path} is not there: `thinwire trace` makes it") from None
    except (OSError, pa.ArrowException):
        raise UserError(f"{path} is damaged or incomplete: make it again with `thinwire trace`") from None
    if table.schema.names != columns.names:
        raise UserError(
            f"{path} has other columns than a trace of this version: make it again with `thinwire trace`"
        )
    return table


def _table(rows: Sequence[tuple[object, ...]], columns: pa.Schema) -> pa.Table:
    values = list(zip(*rows)) or [()] * len(columns)
    return pa.table([pa.array(v, c.type) for v, c in zip(values, columns, strict=True)], schema=columns)


def _spans(recorder: Recorder, zero_ns: int) -> Iterable[tuple[object, ...]]:
    """The rows of a worker in the table of spans; first its own, then those of the server that it hosts."""
    for span in recorder.spans:
        call = None if span.activity.call == NO_CALL else span.activity.call
        yield _span(recorder.worker, COMPUTE, span, call, zero_ns)
    served = [(call.number, span) for call in recorder.calls for span in call.server_spans]
    for number, span in sorted(served, key=lambda entry: entry[1].begin_ns):
        yield _span(recorder.worker, SERVER_TRACK, span, number, zero_ns)


def _span(worker: int, track: str, span: Span, call: int | None, zero_ns: int) -> tuple[object, ...]:
    step, (kind, name, _), begin_ns, end_ns = span
    return worker, step, track, kind, name, call, (begin_ns - zero_ns) * NS, (end_ns - zero_ns) * NS


def _call(worker: int, call: RecordedCall, zero_ns: int) -> tuple[object, ...]:
    """The row of a call; a time that the transport does not know is empty."""
    begun, ended = (((ns - zero_ns) * NS if ns else None) for ns in (call.begun_ns, call.ended_ns))
    return (
        worker,
        call.number,
        call.step,
        call.channel,
        call.members,
        call.verb,
        call.key,
        call.partner,
        call.ragged,
        sum(call.sent_bytes.values()),
        sum(call.received_bytes.values()),
        (call.issued_ns - zero_ns) * NS,
        begun,
        ended,
    )


def step_seconds(trace: Trace, track: str = COMPUTE) -> dict[str, float]:
    """The seconds of a step by activity on a track: means over the workers, then medians over the steps."""
    spans = trace.spans.to_pandas()
    spans = spans[spans["step"] >= 0]
    workers, steps = spans["worker"].nunique(), spans["step"].nunique()
    spans = spans[spans["track"] == track]
    spans["seconds"] = spans["end_seconds"] - spans["begin_seconds"]
    summed = spans.groupby(["step", "activity"], observed=True)["seconds"].sum().unstack(fill_value=0.0)
    medians = (summed / workers).median() if steps else {}
    return {kind: float(medians[kind]) for kind in KINDS if kind in medians}


Reading = tuple[str, list[int]]  # a machine, and times in nanoseconds of its clock
_BARRIERS = 15
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


def common_zero_ns(share: Callable[[Reading], list[Reading]]) -> tuple[int, int]:
    """A moment that all processes have in common, and the number of their machines.

    Processes of one machine have the same monotonic clock. The clocks of several machines have nothing in
    common, so there the moment is when the processes leave a barrier. They leave it at almost the same time:
    the error is about as long as a small message is on its way. It is taken from the median of several
    barriers.

    Args:
        share: returns the values of all processes, in the order of the ranks; all of them call it together.

    Returns:
        The moment, in nanoseconds of this process's clock, and the number of machines.
    """
    machine = _machine()
    after: list[int] = []
    for _ in range(_BARRIERS):
        share((machine, []))
        after.append(perf_counter_ns())
    everybody = share((machine, after))
    clocks: dict[str, list[int]] = {}
    for each, times in everybody:
        # All processes of a machine take the times of the first one, because they have one clock.
        clocks.setdefault(each, times)
    first = everybody[0][1]
    ahead = median(own - others for own, others in zip(clocks[machine], first))
    return int(first[-1] + ahead), len(clocks)


def _machine() -> str:
    """Names the machine; containers and network namespaces of one machine have its clock."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return socket.gethostname()
