"""Calibrates the simulation with traces of emulated runs.

A schedule has the computing of one worker alone. Beside others, computing takes longer: see `contention`.
Handing a call over takes time, too: tensors are copied and threads are woken. And a call between nodes has a
latency that does not follow from its bytes. These two numbers belong to the software and to a kind of calls,
and not to a method. So one method for each kind calibrates the simulation of all. How many bytes an emulated
link passes on at once is known, so it is not fitted.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

import numpy as np
import pandas as pd

from thinwire.emulation.network import BURST_BYTES
from thinwire.simulation.compute import WARM_UP_STEPS
from thinwire.simulation.operations import Compute, Post, Step
from thinwire.simulation.program import Floats, kind_of_call
from thinwire.simulation.replay import measured_end_seconds
from thinwire.trace.recorder import BACKWARD, FORWARD, HARNESS, OPTIMIZER, SERVER, TRANSPORT
from thinwire.trace.trace_file import COMPUTE, Trace

# The activities that are the same alone and beside others.
_COMPUTING = (FORWARD, BACKWARD, OPTIMIZER)
_MOST_LATENCY_SECONDS, _HALVINGS = 0.02, 20
_ROUND = 4  # steps


def _of_steps(trace: Trace) -> pd.DataFrame:
    """A row a span; of the harness only the beginning of a step, where it makes a batch."""
    spans = trace.spans.to_pandas()
    spans = spans[(spans.track == COMPUTE) & (spans.step >= WARM_UP_STEPS)]
    spans = spans.assign(seconds=spans.end_seconds - spans.begin_seconds)
    place = ["worker", "step"]
    begin = spans[spans.activity != HARNESS].groupby(place).begin_seconds.min().rename("first").reset_index()
    spans = spans.merge(begin, on=place)
    return spans[(spans.activity != HARNESS) | (spans.begin_seconds < spans["first"])]


@dataclass(frozen=True)
class Contention:
    """Observed steps of workers that share the machine."""

    paces: Floats  # [observed steps, workers]: seconds of computing beside others, over those alone

    def draw(self, steps: int, seed: int) -> Floats:
        """[steps, workers]: paces of whole observed steps, because workers are slow together."""
        return np.random.default_rng(seed).choice(self.paces, steps)

    @property
    def typical(self) -> float:
        """The median pace."""
        return float(np.median(self.paces))


def contention(traces: Sequence[tuple[Trace, Sequence[Step]]]) -> Contention:
    """Measure it in emulated runs with as many workers, each with the schedule of its first worker."""
    paces = [_computing(trace) / _computing_alone(steps) for trace, steps in traces]
    return Contention(np.concatenate(paces))


def _computing(trace: Trace) -> Floats:
    """[steps, workers]: seconds of computing in each step."""
    spans = _of_steps(trace)
    chosen = spans[spans.activity.isin(_COMPUTING)]
    seconds: pd.Series = chosen.groupby(["step", "worker"]).seconds.sum()
    return seconds.unstack().to_numpy()


def _computing_alone(steps: Sequence[Step]) -> float:
    """Seconds of computing in the mean step of one worker alone."""
    counted = steps[WARM_UP_STEPS:]
    every = [o for step in counted for o in step if isinstance(o, Compute) and o.kind in _COMPUTING]
    return sum(o.seconds for o in every) / len(counted)


@dataclass(frozen=True)
class CallCost:
    """What calls of one kind cost beyond their bytes."""

    hand_over_seconds: float  # of computing, to hand a call over, for a worker alone
    latency_seconds: float  # of a call between nodes


@dataclass(frozen=True)
class Calibration:
    """What the machine and the software add."""

    contention: Contention
    costs: Mapping[str, CallCost] = field(default_factory=dict)  # by the kind of a call
    burst_bytes: int = BURST_BYTES  # that a link passes on at once after a pause

    def hand_over_seconds(self, post: Post) -> float:
        """How long it takes to hand a call over; nothing is known about kinds that were not calibrated."""
        cost = self.costs.get(kind_of_call(post.verb, post.ragged))
        return 0.0 if cost is None or len(post.members) == 1 else cost.hand_over_seconds

    @property
    def latency_seconds(self) -> dict[str, float]:
        """Of calls between nodes, by their kind."""
        return {kind: cost.latency_seconds for kind, cost in self.costs.items()}


@dataclass(frozen=True)
class Sample:
    """An emulated run."""

    trace: Trace
    contention: Contention  # at the time of the run
    simulate: Callable[[Calibration], float]  # gives the simulated seconds of its step


def costs_of_calls(samples: Mapping[str, Sequence[Sample]]) -> dict[str, CallCost]:
    """Find the costs with which the simulated steps of these runs take as long as the real ones.

    Args:
        samples: for each kind of calls, runs of a method that makes them. The method may also make calls of
            earlier kinds.
    """
    costs: dict[str, CallCost] = {}
    for kind, runs in samples.items():
        hand_over = median(_hand_over_seconds(run, kind) for run in runs)
        real = [step_seconds(run.trace) for run in runs]

        low, high = 0.0, _MOST_LATENCY_SECONDS
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            tried = {**costs, kind: CallCost(hand_over, middle)}
            simulated = [run.simulate(Calibration(run.contention, tried)) for run in runs]
            too_slow = median(one / other for one, other in zip(simulated, real)) > 1
            low, high = (low, middle) if too_slow else (middle, high)
        costs[kind] = CallCost(hand_over, (low + high) / 2)
    return costs


def step_seconds(trace: Trace) -> float:
    """The typical seconds of a step, without evaluations and records; see `typical_seconds`."""
    return typical_seconds(np.diff(measured_end_seconds(trace).max(axis=1)[WARM_UP_STEPS - 1 :]))


def typical_seconds(steps: Floats) -> float:
    """The typical seconds of a step: the median over rounds of four steps, of the mean of a round.

    Some methods do something else in every second or fourth step, so each round has such a step. The median
    leaves out rounds in which other programs took the machine.

    Args:
        steps: the seconds of steps that follow one another, at least four.
    """
    rounds = len(steps) // _ROUND
    return float(np.median(steps[: rounds * _ROUND].reshape(rounds, _ROUND).mean(axis=1)))


def _hand_over_seconds(run: Sample, kind: str) -> float:
    """Typical seconds of handing over a call of a kind; a server that answers at once is left out."""
    spans = _of_steps(run.trace)
    busy = spans[spans.activity == TRANSPORT].groupby(["worker", "call"]).seconds.sum().rename("busy")
    served = spans[spans.activity == SERVER].call
    calls = run.trace.calls.to_pandas().set_index(["worker", "number"])
    both = calls.join(busy.rename_axis(["worker", "number"]), how="inner")
    both = both[~both.index.get_level_values("number").isin(served)]
    kinds = [kind_of_call(verb, ragged) for verb, ragged in zip(both.verb, both.ragged)]
    return float(both.busy[np.array(kinds) == kind].median()) / run.contention.typical
