"""What the workers of a run record, in one process."""

import pytest
import torch

from tests import small
from tests.unit.test_recorder import require_gapless
from thinwire import plugins
from thinwire.trace.recorder import (
    BACKWARD,
    FORWARD,
    HARNESS,
    METHOD,
    OPTIMIZER,
    SERVER,
    TRANSPORT,
    WAIT,
    Span,
)
from thinwire.train.tracing import record_spans

METHODS = ("ssgd", "top_k", "ps_sgd", "local_sgd", "daso")


def traced(method, steps=None, **options):
    run = small.trainer(small.task(4, 2), method, **options)
    recorders = record_spans(run)
    run.train(until=steps)
    for recorder in recorders:
        recorder.cut("")
    return run, recorders


def spans_of(recorder):
    return [Span(*span) for span in recorder.spans]


@pytest.mark.parametrize("method", METHODS)
def test_recording_does_not_change_the_training(method):
    plain = small.trainer(small.task(4, 2), method)
    plain.train()
    run, _ = traced(method)
    assert small.everything(run) == small.everything(plain)


@pytest.mark.parametrize("method", METHODS)
def test_spans_have_no_gaps_and_every_call_is_handed_over(method):
    run, recorders = traced(method)
    assert [recorder.worker for recorder in recorders] == [0, 1, 2, 3]
    for recorder in recorders:
        require_gapless(recorder)
        spans = spans_of(recorder)
        assert [span.step for span in spans] == sorted(span.step for span in spans)
        assert {span.step for span in spans} == {-1, *range(run.total_steps)}
        posted = [span.activity.call for span in spans if span.activity.kind == TRANSPORT]
        assert list(dict.fromkeys(posted)) == list(range(len(recorder.calls)))
        waited = {span.activity.call for span in spans if span.activity.kind == WAIT}
        assert waited == set(range(len(recorder.calls)))


@pytest.mark.parametrize("method", METHODS)
def test_the_bytes_of_the_calls_are_those_of_the_ledger(method):
    run, recorders = traced(method)
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
    spans = [span.activity for span in spans_of(recorder) if span.step == 0]
    assert [a.name for a in spans if a.kind == FORWARD and a.name] == ["conv", "norm", "linear"]
    backward = [a.name for a in spans if a.kind == BACKWARD and a.name]
    assert set(backward[:2]) == {"linear.weight", "linear.bias"}
    assert sorted(backward) == sorted(param.name for param in run.workers[0].run.params)
    assert {METHOD, OPTIMIZER} <= {a.kind for a in spans}


def traced_mp2(steps=None):
    task = small.task(4, 2, build_model=small.Plain)
    run = small.trainer(task, "mp2", predictor_epochs=1, bsp_workers=2)
    recorders = record_spans(run)
    run.train(until=steps)
    return run, recorders


def test_a_layer_whose_gradients_nobody_wants_is_cut_where_the_gradient_of_its_inputs_is_there():
    _, (recorder, *_) = traced_mp2(steps=1)
    spans = [span.activity for span in spans_of(recorder) if span.step == 0]
    assert [a.name for a in spans if a.kind == FORWARD and a.name] == ["first", "second", "third", "linear"]
    backward = [a.name for a in spans if a.kind == BACKWARD and a.name]
    assert backward[:2] == ["linear.inputs", "third.inputs"]
    assert sorted(backward[2:]) == ["first.bias", "first.weight", "second.bias", "second.weight"]


def test_recording_such_layers_does_not_change_the_training():
    task = small.task(4, 2, build_model=small.Plain)
    plain = small.trainer(task, "mp2", predictor_epochs=1, bsp_workers=2)
    plain.train()
    run, _ = traced_mp2()
    assert small.everything(run) == small.everything(plain)


def test_evaluations_are_not_cut_and_count_to_the_step_before():
    run, recorders = traced("ssgd", steps=None)
    assert len(run.curve) > 1
    for recorder in recorders:
        for span in spans_of(recorder):
            if span.activity.kind == FORWARD:
                assert span.activity.name in ("", "conv", "norm", "linear")
        per_step = [
            sum(s.activity.kind == FORWARD for s in spans_of(recorder) if s.step == step)
            for step in range(run.total_steps)
        ]
        assert len(set(per_step)) == 1, "an evaluation adds no forward span"


def test_a_server_computes_inside_the_hand_over_that_completes_its_call():
    _, recorders = traced("ps_sgd", steps=2)
    served = 0
    for recorder in recorders:
        spans = spans_of(recorder)
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
        kinds = [s.activity.kind for s in spans_of(recorder) if s.step == 1]
        assert (METHOD in kinds) == (recorder.worker == 0), "the second worker's turn has not come"


def test_hooks_that_a_method_leaves_as_they_are_are_not_recorded():
    _, (recorder, *_) = traced("local_sgd", steps=2)
    assert {s.activity.name for s in spans_of(recorder) if s.activity.kind == METHOD} == {"step"}


def test_an_untraced_run_has_no_recorder():
    run = small.trainer(small.task(2), "ssgd")
    run.train(until=1)
    assert all(channel.recorder is None for worker in run.workers for channel in worker.channels.values())
    assert not torch.nn.modules.module._global_forward_hooks
