"""What the workers of a trace do in their steps, after the first steps, without evaluations and records."""

import pandas as pd

from thinwire.simulation.compute_profile import WARM_UP_STEPS
from thinwire.trace.recorder import HARNESS
from thinwire.trace.trace_file import COMPUTE, Trace


def of_steps(trace: Trace) -> pd.DataFrame:
    """A row a span; of the harness only the beginning of a step, where it makes a batch."""
    spans = trace.spans.to_pandas()
    spans = spans[(spans.track == COMPUTE) & (spans.step >= WARM_UP_STEPS)]
    spans = spans.assign(seconds=spans.end_seconds - spans.begin_seconds)
    place = ["worker", "step"]
    begin = spans[spans.activity != HARNESS].groupby(place).begin_seconds.min().rename("first").reset_index()
    spans = spans.merge(begin, on=place)
    return spans[(spans.activity != HARNESS) | (spans.begin_seconds < spans["first"])]
