"""Which figures a suite has, and in which formats: the pipeline names them before they are drawn."""

# For print, for the web, and for pages that show pictures only.
FORMATS = ("pdf", "svg", "png")
OVER_EPOCHS, AGAINST_BYTES, OVER_TIME = (
    "accuracy_over_epochs",
    "accuracy_against_bytes",
    "accuracy_over_time",
)
TRAFFIC, PAIRED_DIFFERENCES, PROFILE = "traffic", "paired_differences", "performance_profile"
# With fewer, the share of cells is a step or two, and says nothing.
FEWEST_CELLS = 3


def of_runs(cells: int, timed: bool) -> list[str]:
    """The figures that are made from runs.

    Args:
        cells: how many combinations of data set, model, workers and nodes the suite has.
        timed: has the suite processes as workers? Only then can runs have times.
    """
    names = [OVER_EPOCHS, AGAINST_BYTES, TRAFFIC, PAIRED_DIFFERENCES]
    names += [OVER_TIME] if timed else []
    names += [PROFILE] if cells >= FEWEST_CELLS else []
    return names
