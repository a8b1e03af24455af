"""Which of the baselines is the faster one, so that a method cannot be compared with the slower."""

from collections.abc import Mapping, Sequence


def faster_baseline(seconds: Mapping[str, float], baselines: Sequence[str]) -> str | None:
    """The label of the baseline with the fewest seconds, the first of several; None: none has a time.

    Args:
        seconds: of a step, by the label of the method. Of several runs it is the geometric mean, as in the
            speed-up.
        baselines: labels.
    """
    timed = [label for label in baselines if label in seconds]
    return min(timed, key=lambda label: seconds[label], default=None)
