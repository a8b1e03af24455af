"""What the files of results are called, and which figures a suite has.

The pipeline names them before they are made. It reads this file each time, so nothing is imported here.
"""

# The tables of all runs, and the digests of all three and of each record that they were made from.
SUMMARY, CURVES, TRAFFIC = "summary.csv", "curves.parquet", "traffic.parquet"
COLLECTED = "collected.json"
PAGE, PAPER = "index.html", "paper.pdf"
# The verdicts on claims, for programs and for people, and the digests of both.
CLAIMS, CLAIMS_TEXT, CLAIMS_DIGESTS = "claims.csv", "claims.md", "claims.json"
# Of the tables and figures of a suite, in the folder of its tables.
DIGESTS = "digests.json"
# Tables with a figure that belong to no suite.
HSGD_RATIO, REQUIRED_RATE = "hsgd_ratio", "required_rate"

# For print, for the web, and for pages that show pictures only.
FORMATS = ("pdf", "svg", "png")
OVER_EPOCHS, AGAINST_BYTES, OVER_TIME = (
    "accuracy_over_epochs",
    "accuracy_against_bytes",
    "accuracy_over_time",
)
TRAFFIC_FIGURE, PAIRED_DIFFERENCES, PROFILE = "traffic", "paired_differences", "performance_profile"
# With fewer, the share of cells is a step or two, and says nothing.
FEWEST_CELLS = 3
# With fewer, chance may decide what is learned: accuracies are not compared, and no targets are set.
FEWEST_REPETITIONS = 2


def of_runs(cells: int, timed: bool, repetitions: int) -> list[str]:
    """The figures that are made from runs.

    Args:
        cells: how many combinations of data set, model, workers and nodes the suite has.
        timed: has the suite processes as workers? Only then can runs have times.
        repetitions: with how many seeds it trains.
    """
    if repetitions < FEWEST_REPETITIONS:
        return [TRAFFIC_FIGURE]
    names = [OVER_EPOCHS, AGAINST_BYTES, TRAFFIC_FIGURE, PAIRED_DIFFERENCES]
    names += [OVER_TIME] if timed else []
    names += [PROFILE] if cells >= FEWEST_CELLS else []
    return names
