"""The calibration finds the numbers with which made-up traces were made."""

import pytest

from thinwire.emulation.build_network import BURST_BYTES
from thinwire.schedule.operations import Compute, Post
from thinwire.simulation.calibration import Calibration, Sample, calibrate, step_seconds
from thinwire.trace import trace_file
from thinwire.trace.recorder import Activity, RecordedCall, Recorder

STEPS, MS = 8, 1_000_000
# What the traces below are made of: milliseconds.
ALONE, FACTOR, CALL, BYTE, LATENCY = 10, 1.5, 0.5, 2e-6, 3.0


def trace(sizes):
    """Two workers that compute, hand over calls of these sizes in bytes, and wait for them."""
    recorders = []
    for worker in range(2):
        recorder = Recorder(worker)
        now = 0

        def spend(activity, milliseconds, recorder=recorder):
            nonlocal now
            end = now + round(milliseconds * MS)
            recorder.spans.append((recorder.step, activity, now, end))
            now = end

        for step in range(STEPS):
            recorder.step = step
            spend(Activity("harness"), 1)
            spend(Activity("forward", "a"), ALONE * FACTOR)
            for size in sizes:
                about = RecordedCall(step, "world", (0, 1), "mean", "", 0, False, {"values": size}, now)
                number = recorder.call(about)
                spend(Activity("transport", "mean", number), CALL + BYTE * size)
                spend(Activity("wait", "mean", number), LATENCY + 1)
            spend(Activity("harness", "evaluation"), 500)
        recorders.append(recorder)
    return trace_file.of_recorders(recorders, 0)


def test_a_step_counts_without_the_evaluation():
    seconds = step_seconds(trace([1_000_000]))
    assert seconds == pytest.approx((1 + 15 + 0.5 + 2 + 4) / 1e3)


def sample(*sizes):
    def simulate(calibration):
        calls = sum(calibration.seconds_of_a_call + calibration.seconds_of_a_byte * size for size in sizes)
        waits = len(sizes) * (calibration.call_latency_seconds + 1e-3)
        return 1e-3 + calibration.compute * ALONE / 1e3 + calls + waits

    alone = [[Compute("harness", "", 1.0), Compute("forward", "a", ALONE / 1e3)] for _ in range(STEPS)]
    return Sample(trace(sizes), alone, simulate)


def test_it_finds_what_the_traces_were_made_of():
    found = calibrate([sample(1_000_000, 4_000_000), sample(100, 100, 100)])
    assert found.burst_bytes == BURST_BYTES
    assert found.compute == pytest.approx(FACTOR)
    assert found.seconds_of_a_call == pytest.approx(CALL / 1e3)
    assert found.seconds_of_a_byte == pytest.approx(BYTE / 1e3)
    assert found.call_latency_seconds == pytest.approx(LATENCY / 1e3, abs=1e-7)


def test_calls_of_one_size_have_no_price_a_byte():
    found = calibrate([sample(1000, 1000)])
    assert found.seconds_of_a_byte == 0
    assert found.seconds_of_a_call == pytest.approx((CALL + BYTE * 1000) / 1e3)


def test_handing_over_costs_nothing_on_a_channel_of_one():
    calibration = Calibration(1.0, 0.25, 0.5)
    of_two = Post(0, "world", (0, 1), "mean", 0, False, 4, 4, 0.0)
    alone = Post(0, "node", (0,), "mean", 0, False, 4, 4, 0.0)
    assert calibration.hand_over_seconds(of_two) == 2.25
    assert calibration.hand_over_seconds(alone) == 0
