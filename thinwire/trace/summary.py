"""Where the time of a step goes."""

from thinwire.trace.recorder import KINDS
from thinwire.trace.trace_file import COMPUTE, Trace


def step_seconds(trace: Trace, track: str = COMPUTE) -> dict[str, float]:
    """The seconds of a step by activity: the mean over the workers, then the median over the steps.

    Args:
        trace: of all workers.
        track: whose spans are counted.

    Returns:
        The seconds of each activity that has a span on this track.
    """
    spans = trace.spans.to_pandas()
    spans = spans[spans["step"] >= 0]
    workers, steps = spans["worker"].nunique(), spans["step"].nunique()
    spans = spans[spans["track"] == track]
    spans["seconds"] = spans["end_seconds"] - spans["begin_seconds"]
    summed = spans.groupby(["step", "activity"], observed=True)["seconds"].sum().unstack(fill_value=0.0)
    medians = (summed / workers).median() if steps else {}
    return {kind: float(medians[kind]) for kind in KINDS if kind in medians}
