"""What the workers of a run record, in one process and in several."""

from functools import cache

import pytest
import torch

from tests import processes, small
from tests.traced import Everything, trace_of
from tests.unit.test_recorder import require_gapless
from thinwire import plugins
from thinwire.trace import trace_file
from thinwire.trace.recorder import (
    BACKWARD,
    FORWARD,
    HARNESS,
    METHOD,
    OPTIMIZER,
    SERVER,
    TRANSPORT,
    WAIT,
)
from thinwire.trace.trace_file import COMPUTE, SERVER_TRACK
from thinwire.train.tracing import record_spans

METHODS = ("ssgd", "top_k", "ps_sgd", "local_sgd", "daso")
# Gradients of its last layers nobody wants.
OPTIONS = {"mp2": {"predictor_epochs": 1, "bsp_workers": 2}}


def trained(method, record=lambda run: [], steps=None):
    model = small.Plain if method == "mp2" else small.Net
    run = small.trainer(small.task(4, 2, build_model=model), method, **OPTIONS.get(method, {}))
    recorders = record(run)
    run.train(until=steps)
    return run, recorders


@cache
def traced(method, steps=None):
    """A run and its recorders, which several tests read."""
    run, recorders = trained(method, record_spans, steps)
    for recorder in recorders:
        recorder.cut("")
    return run, recorders


@pytest.mark.parametrize("method", [*METHODS, "mp2"])
def test_recording_does_not_change_the_training(method):
    assert small.everything(traced(method)[0]) == small.everything(trained(method)[0])


@pytest.mark.parametrize("method", METHODS)
def test_spans_have_no_gaps_and_every_call_is_handed_over_with_the_bytes_of_the_ledger(method):
    run, recorders = traced(method)
    assert [recorder.worker for recorder in recorders] == [0, 1, 2, 3]
    for recorder in recorders:
        require_gapless(recorder)
        spans = recorder.spans
        assert [span.step for span in spans] == sorted(span.step for span in spans)
        assert {span.step for span in spans} == {-1, *range(run.total_steps)}
        posted = [span.activity.call for span in spans if span.activity.kind == TRANSPORT]
        assert list(dict.fromkeys(posted)) == list(range(len(recorder.calls)))
        waited = {span.activity.call for span in spans if span.activity.kind == WAIT}
        assert waited == set(range(len(recorder.calls)))
    for channel in ("world", "node", "across"):
        rows = [row for row in run.traffic if row["channel"] == channel and row["step"] == run.total_steps]
        pushed = sum(row["payload_push_bytes"] for row in rows) * len(recorders)
        sent = [
            call
            for recorder in recorders
            for call in recorder.calls
            # Of a broadcast, only the source hands something over.
            if call.channel == channel
            and (call.verb != "broadcast" or call.members[call.partner] == recorder.worker)
        ]
        assert pushed == sum(sum(call.sent_bytes.values()) for call in sent)


def test_passes_are_cut_into_layers_and_parameters():
    run, (recorder, *_) = traced("ssgd", steps=1)
    spans = [span.activity for span in recorder.spans if span.step == 0]
    assert [a.name for a in spans if a.kind == FORWARD and a.name] == ["conv", "norm", "linear"]
    backward = [a.name for a in spans if a.kind == BACKWARD and a.name]
    assert set(backward[:2]) == {"linear.weight", "linear.bias"}
    assert sorted(backward) == sorted(param.name for param in run.workers[0].run.params)
    assert {METHOD, OPTIMIZER} <= {a.kind for a in spans}


def test_each_part_of_a_batch_has_both_passes():
    run = small.trainer(small.task(2, accumulate=3), "ssgd")
    recorder, _ = record_spans(run)
    run.train(until=1)
    named = [span.activity for span in recorder.spans if span.step == 0 and span.activity.name]
    passes = [FORWARD] * 3 + [BACKWARD] * len(run.workers[0].run.params)
    assert [a.kind for a in named if a.kind in (FORWARD, BACKWARD)] == passes * 3


def test_a_layer_whose_gradients_nobody_wants_is_cut_where_the_gradient_of_its_inputs_is_there():
    _, (recorder, *_) = traced("mp2", steps=1)
    spans = [span.activity for span in recorder.spans if span.step == 0]
    assert [a.name for a in spans if a.kind == FORWARD and a.name] == ["first", "second", "third", "linear"]
    backward = [a.name for a in spans if a.kind == BACKWARD and a.name]
    assert backward[:2] == ["linear.inputs", "third.inputs"]
    assert sorted(backward[2:]) == ["first.bias", "first.weight", "second.bias", "second.weight"]


def test_evaluations_are_not_cut_and_count_to_the_step_before():
    run, recorders = traced("ssgd")
    assert len(run.curve) > 1
    for recorder in recorders:
        for span in recorder.spans:
            if span.activity.kind == FORWARD:
                assert span.activity.name in ("", "conv", "norm", "linear")
        per_step = [
            sum(s.activity.kind == FORWARD for s in recorder.spans if s.step == step)
            for step in range(run.total_steps)
        ]
        assert len(set(per_step)) == 1, "an evaluation adds no forward span"


def test_a_server_computes_inside_the_hand_over_that_completes_its_call():
    _, recorders = traced("ps_sgd", steps=2)
    served = 0
    for recorder in recorders:
        spans = recorder.spans
        for before, span, after in zip(spans, spans[1:], spans[2:]):
            if span.activity.kind == SERVER:
                served += 1
                assert before.activity.kind == after.activity.kind == TRANSPORT
                assert before.activity.call == after.activity.call
    assert served == 2 * len({call.key for call in recorders[0].calls})


class Breaks(plugins.get("method", "ssgd").load()):
    def step(self):
        if self.run.step == 1:
            raise RuntimeError("broken")
        super().step()


def test_an_error_in_a_hook_leaves_the_spans_in_order():
    run = small.trainer(small.task(2), Breaks)
    recorders = record_spans(run)
    with pytest.raises(RuntimeError, match="broken"):
        run.train()
    for recorder in recorders:
        assert recorder.current.kind == HARNESS
        require_gapless(recorder)
        kinds = [s.activity.kind for s in recorder.spans if s.step == 1]
        assert (METHOD in kinds) == (recorder.worker == 0), "the second worker's turn has not come"


def test_an_untraced_run_and_hooks_that_a_method_leaves_as_they_are_are_not_recorded():
    run = small.trainer(small.task(2), "ssgd")
    run.train(until=1)
    assert all(channel.recorder is None for worker in run.workers for channel in worker.channels.values())
    assert not torch.nn.modules.module._global_forward_hooks
    _, (recorder, *_) = traced("local_sgd", steps=2)
    assert {s.activity.name for s in recorder.spans if s.activity.kind == METHOD} == {"step"}


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


def test_recording_in_processes_does_not_change_the_training(outcomes):
    for without, traced in outcomes[train_with_and_without]:
        assert traced == without


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
