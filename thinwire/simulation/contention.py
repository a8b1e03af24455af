"""How much longer computing takes beside others: workers and the kernel's network share the machine."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from thinwire.schedule.operations import Compute, Step
from thinwire.simulation.compute_profile import WARM_UP_STEPS
from thinwire.simulation.timeline import Floats
from thinwire.simulation.worker_spans import of_steps
from thinwire.trace.recorder import BACKWARD, FORWARD, OPTIMIZER
from thinwire.trace.trace_file import Trace

# The activities that are the same alone and beside others.
_COMPUTING = (FORWARD, BACKWARD, OPTIMIZER)


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
    """Measure it in runs with the same number of workers.

    Args:
        traces: of emulated runs, each with the schedule of its first worker.
    """
    return Contention(
        np.concatenate([_computing(trace) / _computing_alone(steps) for trace, steps in traces])
    )


def _computing(trace: Trace) -> Floats:
    """[steps, workers]: seconds of computing in each step."""
    spans = of_steps(trace)
    chosen = spans[spans.activity.isin(_COMPUTING)]
    seconds: pd.Series = chosen.groupby(["step", "worker"]).seconds.sum()
    return seconds.unstack().to_numpy()


def _computing_alone(steps: Sequence[Step]) -> float:
    """Seconds of computing in the mean step of one worker alone."""
    counted = steps[WARM_UP_STEPS:]
    every = [o for step in counted for o in step if isinstance(o, Compute) and o.kind in _COMPUTING]
    return sum(o.seconds for o in every) / len(counted)
