"""Traces of workers in real processes: what their transport notes, and what its threads do."""

from itertools import pairwise

import pytest

from tests import processes, small
from tests.traced import Everything, trace_of
from thinwire.trace import perfetto, trace_file
from thinwire.trace.trace_file import COMPUTE, SERVER_TRACK
from thinwire.train.tracing import record_spans

WORKERS, NODES = 4, 2
# These verbs are carried out by threads of the transport, which note the end before the worker learns of it.
IN_THREADS = ("push_pull", "receive")


def trace_everything():
    return trace_of(Everything, workers=WORKERS, nodes=NODES)


def trace_parameter_server():
    return trace_of("ps_sgd", workers=WORKERS, nodes=NODES)


def train_with_and_without():
    digests = []
    for traced in (False, True):
        run = small.trainer(small.task(WORKERS, NODES), "top_k")
        if traced:
            record_spans(run)
        run.train()
        digests.append(small.digest([*run.workers[0].run.weights]))
    return digests


@pytest.fixture(scope="module")
def outcomes():
    functions = (trace_everything, trace_parameter_server, train_with_and_without)
    made = processes.run_all(functions, WORKERS)
    for each in made:
        if isinstance(each, processes.Failed):
            raise each
    return dict(zip(functions, made))


@pytest.fixture(scope="module")
def trace(outcomes):
    """The trace of all workers."""
    return trace_file.merged(outcomes[trace_everything])


def test_recording_does_not_change_the_training(outcomes):
    for without, traced in outcomes[train_with_and_without]:
        assert traced == without


def test_spans_of_a_worker_have_no_gaps(trace):
    spans = [span for span in trace.spans.to_pylist() if span["track"] == COMPUTE]
    for worker in range(WORKERS):
        own = [span for span in spans if span["worker"] == worker]
        assert {span["step"] for span in own} == {-1, 0, 1, 2}
        for span, following in pairwise(own):
            assert span["begin_seconds"] <= span["end_seconds"] == following["begin_seconds"]


def test_the_transport_knows_when_every_call_began_and_ended(trace):
    waits = {
        (span["worker"], span["call"]): span["end_seconds"]
        for span in trace.spans.to_pylist()
        if span["activity"] == "wait"
    }
    calls = trace.calls.to_pylist()
    assert {call["verb"] for call in calls} == {"mean", "gather", "broadcast", "push_pull", "send", "receive"}
    for call in calls:
        assert call["issued_seconds"] <= call["begun_seconds"] <= call["ended_seconds"], call
        if call["verb"] in IN_THREADS or (call["verb"] == "gather" and call["ragged"]):
            assert call["ended_seconds"] <= waits[call["worker"], call["number"]], call


def test_an_answer_is_there_only_after_the_last_worker_has_called(trace):
    calls = [call for call in trace.calls.to_pylist() if call["channel"] == "world"]
    for verb in ("mean", "gather", "push_pull"):
        of_workers = [[c for c in calls if (c["worker"], c["verb"]) == (w, verb)] for w in range(WORKERS)]
        for together in zip(*of_workers, strict=True):
            last = max(call["issued_seconds"] for call in together)
            assert min(call["ended_seconds"] for call in together) >= last


def test_servers_in_threads_have_a_track_of_their_own(outcomes):
    for worker, own in enumerate(outcomes[trace_parameter_server]):
        calls = {call["number"]: call for call in own.calls.to_pylist()}
        hosted = {number for number, call in calls.items() if call["members"][call["partner"]] == worker}
        spans = own.spans.to_pylist()
        served = [span for span in spans if span["track"] == SERVER_TRACK]
        assert {span["call"] for span in served} == hosted
        assert not any(span["activity"] == "server" for span in spans if span["track"] == COMPUTE)
        for span in served:
            call = calls[span["call"]]
            assert call["step"] == span["step"]
            assert (
                call["begun_seconds"] <= span["begin_seconds"] <= span["end_seconds"] <= call["ended_seconds"]
            )


def test_events_for_perfetto_are_made_from_the_merged_trace(trace, tmp_path):
    trace_file.write(tmp_path, trace)
    back = trace_file.read(tmp_path)
    found = list(perfetto.events(back))
    threads = {e["args"]["name"] for e in found if e["name"] == "thread_name"}
    assert {"compute", "communication world", "communication node", "server"} <= threads
