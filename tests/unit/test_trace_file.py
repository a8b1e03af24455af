"""Traces in files, and as Chrome JSON trace events."""

import json
from collections import Counter, defaultdict
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from tests.traced import Everything, trace_of
from thinwire.base.errors import UserError
from thinwire.trace import perfetto, trace_file
from thinwire.trace.trace_file import CALLS, COMPUTE, SPANS, Trace, common_zero_ns, step_seconds


@pytest.fixture(scope="module")
def trace():
    return trace_of(Everything)


def test_a_trace_is_read_as_it_was_written(trace, tmp_path):
    trace_file.write(tmp_path, trace)
    back = trace_file.read(tmp_path)
    assert back.spans.equals(trace.spans)
    assert back.calls.equals(trace.calls)
    # A trace without calls is a trace.
    empty = trace_file.of_recorders([], 0)
    trace_file.write(tmp_path, empty)
    assert trace_file.read(tmp_path).calls.num_rows == 0
    assert step_seconds(empty) == {}


def test_parts_of_processes_make_one_trace(trace, tmp_path):
    parts = []
    for worker in range(4):
        part = Trace(*(table.filter(pc.field("worker") == worker) for table in trace))
        trace_file.write(tmp_path / str(worker), part)
        parts.append(trace_file.read(tmp_path / str(worker)))
    whole = trace_file.merged(parts)
    assert whole.spans.to_pylist() == trace.spans.to_pylist()
    assert whole.calls.to_pylist() == trace.calls.to_pylist()


@pytest.mark.parametrize("name", [SPANS, CALLS])
@pytest.mark.parametrize("kept", [0.0, 0.5, 0.99])
def test_a_file_that_was_cut_short_is_one_sentence(trace, tmp_path, name, kept):
    trace_file.write(tmp_path, trace)
    path = tmp_path / name
    content = path.read_bytes()
    path.write_bytes(content[: int(kept * len(content))])
    with pytest.raises(UserError, match="is damaged or incomplete: make it again with `thinwire trace`"):
        trace_file.read(tmp_path)


def test_a_file_that_is_missing_or_something_else_is_one_sentence(trace, tmp_path):
    with pytest.raises(UserError, match=r"spans\.parquet is not there: `thinwire trace` makes it"):
        trace_file.read(tmp_path)
    trace_file.write(tmp_path, trace)
    pq.write_table(pa.table({"step": [1]}), tmp_path / CALLS)
    with pytest.raises(UserError, match=r"calls\.parquet has other columns than a trace of this version"):
        trace_file.read(tmp_path)


def test_the_seconds_of_a_step_are_all_its_spans(trace):
    spans = trace.spans.to_pandas()
    inner = spans[spans["step"] >= 0]
    lengths = (inner["end_seconds"] - inner["begin_seconds"]).groupby(inner["step"]).sum() / 4
    seconds = step_seconds(trace)
    assert {"forward", "backward", "method", "server", "transport", "wait", "harness"} <= set(seconds)
    assert 0 < sum(seconds.values()) <= lengths.max() * len(seconds)
    one_step = Trace(trace.spans.filter(pc.field("step") == 1), trace.calls)
    assert sum(step_seconds(one_step).values()) == pytest.approx(lengths[1])


HOUR = 3_600_000_000_000


@pytest.mark.parametrize(
    ("machines", "ahead_ns", "zero_ahead_ns"),
    [("aaa", (0, 500, 900), 0), ("aabb", (0, 100, HOUR, HOUR + 70), HOUR)],
    ids=["one machine", "several machines"],
)
def test_processes_count_from_the_same_moment(monkeypatch, machines, ahead_ns, zero_ahead_ns):
    """Processes of one machine leave a barrier one after the other; clocks of several are compared there."""
    monkeypatch.setattr("thinwire.trace.trace_file._machine", lambda: machines[-1])
    answers = []

    def share(own):
        """As other processes would answer, whose clocks are ahead by known times."""
        _, after = own
        answers.append(
            [(machine, [time + more for time in after]) for machine, more in zip(machines, ahead_ns)]
        )
        return answers[-1]

    zero_ns, found = common_zero_ns(share)
    assert found == len(set(machines))
    assert zero_ns - answers[-1][0][1][-1] == zero_ahead_ns


# The keys that each kind of event needs; `M`: metadata, `X`: complete event, `s` and `f`: ends of a flow.
NEEDED = {
    "M": {"name", "pid", "tid", "args"},
    "X": {"name", "cat", "ts", "dur", "pid", "tid"},
    "s": {"name", "cat", "id", "ts", "pid", "tid"},
    "f": {"name", "cat", "id", "ts", "pid", "tid", "bp"},
}


@pytest.fixture(scope="module")
def events(trace, tmp_path_factory):
    path = tmp_path_factory.mktemp("trace") / "trace.json"
    perfetto.write(path, trace)
    content = json.loads(path.read_text())
    assert content["displayTimeUnit"] in ("ms", "ns")
    return content["traceEvents"]


def slices_by_track(events):
    found = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            found[event["pid"], event["tid"]].append(event)
    return found


def test_every_event_has_the_keys_of_its_kind(events):
    for event in events:
        assert NEEDED[event["ph"]] <= event.keys(), event
        assert {type(event["pid"]), type(event["tid"])} == {int}
        assert min(event.get(time, 0) for time in ("ts", "dur")) >= 0, event


def test_metadata_names_every_process_and_track_once(events):
    named = [(event["name"], event["pid"], event["tid"]) for event in events if event["ph"] == "M"]
    assert len(named) == len(set(named))
    names = {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in events
        if event["name"] == "thread_name"
    }
    assert slices_by_track(events).keys() == names.keys()
    for worker in range(4):
        tracks = {name for (pid, _), name in names.items() if pid == worker}
        assert {COMPUTE, "communication world", "communication node"} <= tracks
    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert processes == {worker: f"worker {worker}" for worker in range(4)}


def test_every_span_and_every_call_is_there_and_slices_of_a_track_do_not_overlap(trace, events):
    kinds = Counter(event["cat"] for event in events if event["ph"] == "X")
    assert kinds.pop("communication") == trace.calls.num_rows
    assert kinds == Counter(trace.spans["activity"].to_pylist())
    for track in slices_by_track(events).values():
        track.sort(key=lambda event: event["ts"])
        for event, following in pairwise(track):
            # In nanoseconds, because microseconds with a point are rounded.
            assert round(1e3 * (event["ts"] + event["dur"])) <= round(1e3 * following["ts"])


def test_each_arrow_leads_from_a_hand_over_to_its_wait(trace, events):
    ends = {phase: {e["id"]: e for e in events if e["ph"] == phase} for phase in "sf"}
    assert ends["s"].keys() == ends["f"].keys()
    assert len(ends["s"]) == trace.calls.num_rows, "every call is waited for"
    tracks = slices_by_track(events)
    for number, begin in ends["s"].items():
        end = ends["f"][number]
        assert begin["ts"] <= end["ts"]
        (handed_over,) = at(tracks[begin["pid"], begin["tid"]], begin["ts"], "transport")
        (waits,) = at(tracks[end["pid"], end["tid"]], end["ts"], "wait")
        assert handed_over["args"]["call"] == waits["args"]["call"]


def at(track, time, kind):
    return [event for event in track if event["ts"] == time and event["cat"] == kind]


def test_calls_that_overlap_get_several_tracks(trace):
    calls = trace.calls.to_pylist()[:3]
    for number, call in enumerate(calls):
        call.update(channel="world", begun_seconds=1.0 + number, ended_seconds=2.5 + number)
    several = Trace(trace.spans, trace.calls.from_pylist(calls, schema=trace.calls.schema))
    found = list(perfetto.events(several))
    names = [e["args"]["name"] for e in found if e["name"] == "thread_name" and e["pid"] == 0]
    assert names[1:] == ["communication world", "communication world 2"]
