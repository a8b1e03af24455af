"""The recorder of one worker, by itself."""

import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch
from greenlet import greenlet

from thinwire.trace.recorder import (
    BACKWARD,
    DECODE,
    ENCODE,
    HARNESS,
    METHOD,
    SERVER,
    Activity,
    RecordedCall,
    Recorder,
    recorded,
    recording,
)
from thinwire.transport.call import Call, Server
from thinwire.transport.messages import FIRST_TAG_OF_MESSAGES, PointToPoint


def kinds(recorder):
    return [span.activity.kind for span in recorder.spans]


def require_gapless(recorder):
    assert recorder.spans
    for span, following in pairwise(recorder.spans):
        assert span.begin_ns <= span.end_ns == following.begin_ns


@pytest.fixture
def recorder():
    made = Recorder(3)
    token = recording.set(made)
    yield made
    recording.reset(token)


@recorded(ENCODE)
def encode(tensor, fail=False):
    if fail:
        raise ValueError("no")
    return decode(tensor)


@recorded(DECODE)
def decode(tensor):
    return tensor + 1


def test_spans_follow_one_another_without_gaps(recorder):
    recorder.step = 0
    before = recorder.switch(Activity(METHOD, "step"))
    encode(1)
    recorder.cut("first part")
    recorder.switch(before)
    recorder.cut("")
    require_gapless(recorder)
    assert kinds(recorder) == [HARNESS, METHOD, ENCODE, DECODE, ENCODE, METHOD, METHOD, HARNESS]


def test_a_cut_names_the_part_that_ends(recorder):
    recorder.switch(Activity(BACKWARD))
    recorder.cut("weight")
    recorder.switch(Activity(HARNESS))
    assert [span.activity.name for span in recorder.spans[1:]] == ["weight", ""]
    # An error restores the activity before.
    recorder.switch(Activity(METHOD, "step"))
    with pytest.raises(ValueError, match="no"):
        encode(1, fail=True)
    assert recorder.current == Activity(METHOD, "step")


def test_workers_that_run_in_turns_do_not_mix():
    made = [Recorder(0), Recorder(1)]

    @recorded(ENCODE)
    def pause():
        greenlet.getcurrent().parent.switch()
        decode(1)

    def work(recorder):
        recording.set(recorder)
        pause()

    workers = [greenlet(lambda r=r: work(r)) for r in made]
    for _ in range(2):
        for worker in workers:
            worker.switch()
    for recorder in made:
        require_gapless(recorder)
        assert kinds(recorder) == [HARNESS, ENCODE, DECODE, ENCODE]
    assert recording.get() is None


class Answers(Server):
    def update(self, pushes):
        return {"values": decode(pushes[0]["values"])}


def call_of(recorder):
    about = {"channel": "world", "members": (0, 3), "verb": "push_pull", "key": "0", "partner": 1}
    made = RecordedCall(step=7, ragged=False, sent_bytes={"values": 8}, issued_ns=1, **about)
    recorder.call(made)
    return Call("push_pull", server=Answers({}), recorded=made)


def test_a_server_in_a_thread_has_spans_of_its_own():
    recorder = Recorder(3)
    call = call_of(recorder)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(call.serve, [{"values": torch.zeros(2)}]).result()
    assert not recorder.spans
    assert [(span.step, span.activity.kind) for span in call.recorded.server_spans] == [(7, SERVER)]


def test_a_server_in_the_turn_of_a_worker_is_among_its_spans(recorder):
    call = call_of(recorder)
    call.serve([{"values": torch.zeros(2)}])
    assert kinds(recorder) == [HARNESS, SERVER]
    assert not call.recorded.server_spans


def test_a_message_whose_receiver_is_late_does_not_delay_the_ends_of_others():
    late, ended = threading.Event(), []

    class Group:
        def send(self, tensors, member, tag):
            return SimpleNamespace(wait=late.wait if member == 1 else lambda: None)

    messages = PointToPoint(Group(), torch.device("cpu"), FIRST_TAG_OF_MESSAGES)
    second = threading.Event()
    messages.send({"values": torch.ones(1)}, [1], 1, left=lambda: ended.append(1))
    messages.send({"values": torch.ones(1)}, [2], 1, left=second.set)
    assert second.wait(20)
    assert ended == []
    late.set()
    messages.close()
    assert ended == [1, 1], "its header and its body"
