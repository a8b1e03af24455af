"""Traces as Chrome JSON trace events, compared with the form of the Trace Event Format."""

import json
from collections import Counter, defaultdict
from itertools import pairwise

import pytest

from tests.traced import Everything, trace_of
from thinwire.trace import perfetto
from thinwire.trace.trace_file import COMPUTE, Trace

# The keys that each kind of event needs; `M`: metadata, `X`: complete event, `s` and `f`: ends of a flow.
NEEDED = {
    "M": {"name", "pid", "tid", "args"},
    "X": {"name", "cat", "ts", "dur", "pid", "tid"},
    "s": {"name", "cat", "id", "ts", "pid", "tid"},
    "f": {"name", "cat", "id", "ts", "pid", "tid", "bp"},
}


@pytest.fixture(scope="module")
def trace():
    return trace_of(Everything)


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
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        for time in ("ts", "dur"):
            assert event.get(time, 0) >= 0, event


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


def test_slices_of_a_track_do_not_overlap(events):
    for track in slices_by_track(events).values():
        track.sort(key=lambda event: event["ts"])
        for event, following in pairwise(track):
            # In nanoseconds, because microseconds with a point are rounded.
            assert round(1e3 * (event["ts"] + event["dur"])) <= round(1e3 * following["ts"])


def test_every_span_and_every_call_is_there(trace, events):
    kinds = Counter(event["cat"] for event in events if event["ph"] == "X")
    assert kinds.pop("communication") == trace.calls.num_rows
    assert kinds == Counter(trace.spans["activity"].to_pylist())


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
