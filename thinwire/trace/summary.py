"""Where the time of a step goes."""

from thinwire.trace.recorder import KINDS
from thinwire.trace.trace_file import COMPUTE, Trace


def step_seconds(trace: Trace) -> dict[str, float]:
    """The seconds of a step by activity: the mean over the workers, then the median over the steps.

    Activities without a span are left out.
    """
    spans = trace.spans.to_pandas()
    spans = spans[(spans["track"] == COMPUTE) & (spans["step"] >= 0)]
    spans["seconds"] = spans["end_seconds"] - spans["begin_seconds"]
    workers, steps = spans["worker"].nunique(), spans["step"].nunique()
    summed = spans.groupby(["step", "activity"], observed=True)["seconds"].sum().unstack(fill_value=0.0)
    medians = (summed / workers).median() if steps else {}
    return {kind: float(medians[kind]) for kind in KINDS if kind in medians}
