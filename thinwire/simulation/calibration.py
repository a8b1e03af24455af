"""Calibrates the simulation with traces of emulated runs.

A compute profile measures one worker alone. Beside others, computing takes longer, because the workers and
the kernel's network share the machine. Handing a call over takes time, too: tensors are copied and threads
are woken. And each call has a latency that does not follow from its bytes. These numbers belong to a machine
and to the software, and not to a method. So the traces of a few methods calibrate the simulation of all. How
many bytes an emulated link passes on at once is known, and is no fit.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from thinwire.emulation.build_network import BURST_BYTES
from thinwire.schedule.operations import Compute, Post, Step
from thinwire.simulation.compute_profile import WARM_UP_STEPS
from thinwire.simulation.replay import measured_end_seconds
from thinwire.simulation.timeline import Floats
from thinwire.trace.recorder import BACKWARD, FORWARD, HARNESS, OPTIMIZER, SERVER, TRANSPORT
from thinwire.trace.trace_file import COMPUTE, Trace

# The activities that are the same alone and beside others.
_COMPUTING = (FORWARD, BACKWARD, OPTIMIZER)
_MOST_LATENCY_SECONDS, _HALVINGS = 0.02, 20
_ROUND = 4  # steps


@dataclass(frozen=True)
class Calibration:
    """What the machine and the software add."""

    compute: float = 1.0  # seconds of computing beside others, over those alone
    seconds_of_a_call: float = 0.0  # for handing a call over
    seconds_of_a_byte: float = 0.0  # in addition, for each byte that is handed over
    call_latency_seconds: float | None = None  # None: as the cluster says
    burst_bytes: int = 0  # that a link passes on at once after a pause

    def hand_over_seconds(self, post: Post) -> float:
        """How long it takes to hand a call over."""
        alone = len(post.members) == 1
        return 0.0 if alone else self.seconds_of_a_call + self.seconds_of_a_byte * post.sent_bytes


@dataclass(frozen=True)
class Sample:
    """An emulated run, and the schedule of its first worker."""

    trace: Trace
    steps: Sequence[Step]
    simulate: Callable[[Calibration], float]  # gives the simulated seconds of a step


def calibrate(samples: Sequence[Sample]) -> Calibration:
    """Find the numbers with which the simulated steps of these runs take as long as the real ones."""
    beside = sum(_computing(sample.trace) for sample in samples)
    alone = sum(_computing_alone(sample.steps) for sample in samples)
    calls = [_hand_overs(sample.trace) for sample in samples]
    a_call, a_byte = _line(np.concatenate([c[0] for c in calls]), np.concatenate([c[1] for c in calls]))
    known = Calibration(beside / alone, a_call, a_byte, burst_bytes=BURST_BYTES)
    measured = sum(step_seconds(sample.trace) for sample in samples)

    def error(latency: float) -> float:
        tried = replace(known, call_latency_seconds=latency)
        return sum(sample.simulate(tried) for sample in samples) - measured

    low, high = 0.0, _MOST_LATENCY_SECONDS
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if error(middle) > 0 else (middle, high)
    return replace(known, call_latency_seconds=(low + high) / 2)


def step_seconds(trace: Trace) -> float:
    """The typical seconds of a step, without evaluations and records; see `typical_seconds`."""
    return typical_seconds(np.diff(measured_end_seconds(trace).max(axis=1)[WARM_UP_STEPS - 1 :]))


def typical_seconds(steps: Floats) -> float:
    """The typical seconds of a step: the median over rounds of four steps, of the mean of a round.

    Methods that do something else in every second or fourth step have it in every round. A median, because
    now and then something else takes the machine for a moment.

    Args:
        steps: the seconds of steps that follow one another, at least four.
    """
    rounds = len(steps) // _ROUND
    return float(np.median(steps[: rounds * _ROUND].reshape(rounds, _ROUND).mean(axis=1)))


def _of_steps(trace: Trace) -> pd.DataFrame:
    """What the workers do in their steps; of the harness only the beginning, where it makes a batch."""
    spans = trace.spans.to_pandas()
    spans = spans[(spans.track == COMPUTE) & (spans.step >= WARM_UP_STEPS)]
    spans = spans.assign(seconds=spans.end_seconds - spans.begin_seconds)
    place = ["worker", "step"]
    begin = spans[spans.activity != HARNESS].groupby(place).begin_seconds.min().rename("first").reset_index()
    spans = spans.merge(begin, on=place)
    return spans[(spans.activity != HARNESS) | (spans.begin_seconds < spans["first"])]


def _computing(trace: Trace) -> float:
    """Typical seconds of computing in a step, beside others."""
    spans = _of_steps(trace)
    chosen = spans[spans.activity.isin(_COMPUTING)]
    return float(chosen.groupby(["worker", "step"]).seconds.sum().median())


def _computing_alone(steps: Sequence[Step]) -> float:
    counted = steps[WARM_UP_STEPS:]
    every = [o for step in counted for o in step if isinstance(o, Compute) and o.kind in _COMPUTING]
    return sum(o.seconds for o in every) / len(counted)


def _hand_overs(trace: Trace) -> tuple[np.ndarray, np.ndarray]:
    """Bytes and seconds of each call that was handed over; a server that answers at once is left out."""
    spans = _of_steps(trace)
    busy = spans[spans.activity == TRANSPORT].groupby(["worker", "call"]).seconds.sum().rename("busy")
    served = spans[spans.activity == SERVER].call
    calls = trace.calls.to_pandas().set_index(["worker", "number"])
    both = calls.join(busy.rename_axis(["worker", "number"]), how="inner")
    both = both[~both.index.get_level_values("number").isin(served)]
    return both.sent_bytes.to_numpy(float), both.busy.to_numpy(float)


def _line(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """The line through the medians of points with the same x: its height at 0, and its slope."""
    medians = pd.Series(y).groupby(x).median()
    x, y = medians.index.to_numpy(), medians.to_numpy()
    slope, height = np.polyfit(x, y, 1) if len(set(x.tolist())) > 1 else (0.0, float(y.mean()))
    if slope < 0:
        return float(y.mean()), 0.0
    if height < 0:
        return 0.0, float((x * y).sum() / (x * x).sum())
    return float(height), float(slope)
