"""The clocks on a GPU: they count what the stream does, and wait for nothing until they are read."""

import pytest
import torch

import thinwire
from tests import small
from tests.fake_gpu import CUDA, FakeGpu
from thinwire.train.clock import Clock, StreamClock, clock_on


@pytest.fixture
def gpu(monkeypatch):
    made = FakeGpu()
    made.install(monkeypatch)
    return made


def test_on_cpus_a_clock_is_switched_without_events():
    assert type(clock_on(torch.device("cpu"))) is Clock
    assert type(clock_on(torch.device("cpu", 0))) is Clock


def test_work_in_the_queue_belongs_to_the_clock_that_ran_when_it_was_put_there(gpu):
    clock = clock_on(CUDA)
    assert isinstance(clock, StreamClock)
    gpu.compute(1)
    clock.switch("train")
    gpu.put(10)
    clock.switch("harness")
    # The stream is still busy with training, so the harness costs nothing.
    gpu.compute(2)
    clock.switch("train")
    gpu.put(10)
    clock.switch("harness")
    assert gpu.host == 3, "nothing was waited for"
    assert clock.read() == {"train": 20, "eval": 0, "harness": 1}
    assert gpu.host == 21, "the clocks are known when the stream has done its work"
    gpu.compute(5)
    clock.switch("eval")
    gpu.put(4)
    clock.switch("harness")
    assert clock.read() == {"train": 20, "eval": 4, "harness": 6}
    assert gpu.synchronised == 0


def test_what_the_stream_has_done_is_counted_at_once_so_that_no_events_pile_up(gpu):
    clock = clock_on(CUDA)
    for _ in range(100):
        clock.switch("train")
        gpu.put(1)
        clock.switch("harness")
        gpu.compute(1)
    assert len(clock._switches) <= 3
    assert clock.read()["train"] == 100


def test_a_clock_goes_on_from_the_seconds_of_an_earlier_attempt(gpu):
    clock = clock_on(CUDA)
    clock.load({"train": 7.0, "eval": 2.0, "harness": 1.0})
    clock.switch("train")
    gpu.put(3)
    clock.switch("harness")
    assert clock.read() == {"train": 10, "eval": 2, "harness": 1}


class LeavesACallInFlight(thinwire.Method):
    """At each step, computes for one second and begins a call of four seconds, which the end waits for."""

    gpu: FakeGpu

    def sync_weights(self):
        self.gpu.put(1)
        self.gpu.put(4 if self.run.step == 0 else 0, self.gpu.other)

    def finish(self):
        self.gpu.wait_for_other()


def test_a_run_never_waits_for_the_whole_gpu_so_calls_fly_across_steps(gpu):
    """Ten steps of a second each: the call of four seconds ends long before the last one."""
    LeavesACallInFlight.gpu = gpu
    run = small.trainer(small.task(1, epochs=2), LeavesACallInFlight)
    run.clock = clock_on(CUDA)
    run.train()
    assert run.total_steps == 10
    assert gpu.synchronised == 0
    assert run.curve[-1]["train_seconds"] == 10
