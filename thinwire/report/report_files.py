"""The files of a report: names, digests, and numbers as tables have them.

The pipeline names these files before they are made.
"""

import math
from collections.abc import Iterable
from decimal import ROUND_HALF_UP, Context, Decimal
from pathlib import Path

import pandas as pd

from thinwire.base import digests
from thinwire.base.errors import UserError
from thinwire.base.files import write_text
from thinwire.base.folders import suggested_command
from thinwire.base.learning import LearningTask
from thinwire.simulation import simulated_file

# The tables of all runs, and the digests of all three and of each record that they were made from.
SUMMARY, CURVES, TRAFFIC = "summary.csv", "curves.parquet", "traffic.parquet"
COLLECTED = "collected.json"
# The scores of a track, in the folder of its tables.
SCORES = "scores"
PAGE, PAPER = "index.html", "paper.pdf"
# The verdicts on claims, for programs and for people, and the digests of both.
CLAIMS, CLAIMS_TEXT, CLAIMS_DIGESTS = "claims.csv", "claims.md", "claims.json"
# Of the tables and figures of a suite, in the folder of its tables.
DIGESTS = "digests.json"
# A table with a figure that belong to no suite.
HSGD_RATIO = "hsgd_ratio"

# For print, and for pages that show pictures only.
FORMATS = ("pdf", "png")
TRAFFIC_FIGURE, PAIRED_DIFFERENCES, PROFILE = "traffic", "paired_differences", "performance_profile"
TRADE_OFF = "trade_off"
OVER_EPOCHS, OVER_TIME, AGAINST_BYTES = "over_epochs", "over_time", "against_bytes"
# With fewer, the share of settings is a step or two, and says nothing.
FEWEST_SETTINGS = 3
# With fewer, chance may decide what is learned: scores are not compared, and no targets are set.
FEWEST_REPETITIONS = 2


def of_scores(task: LearningTask, axis: str) -> str:
    """The figure of scores over one of the axes `OVER_EPOCHS`, `OVER_TIME` and `AGAINST_BYTES`."""
    return f"{task.metric}_{axis}"


def of_runs(task: LearningTask, settings: int, timed: bool, repetitions: int) -> list[str]:
    """The figures that are made from runs.

    Args:
        task: what the suite learns.
        settings: how many combinations of data set, model, workers and nodes the suite has.
        timed: has the suite processes as workers? Only then can runs have times.
        repetitions: with how many seeds it trains.
    """
    if repetitions < FEWEST_REPETITIONS:
        return [TRAFFIC_FIGURE]
    names = [of_scores(task, axis) for axis in (OVER_EPOCHS, AGAINST_BYTES)]
    names += [TRAFFIC_FIGURE, PAIRED_DIFFERENCES, TRADE_OFF]
    names += [of_scores(task, OVER_TIME)] if timed else []
    names += [PROFILE] if settings >= FEWEST_SETTINGS else []
    return names


# What only a simulated suite has, or one with a ladder or a track.
SOME_TABLES = ("times", "ladder", SCORES)
SOME_FIGURES = ("step_breakdown", "speed_up_simulated", "speed_up_over_workers", "bandwidth", "ladder")
_FOLDERS = ("tables", "figures")


def remove_some(results: Path, suite: str) -> None:
    """Delete what only some reports have, so that none of an earlier report is taken for one of this."""
    for name in SOME_TABLES:
        for end in ("csv", "md"):
            (results / "tables" / suite / f"{name}.{end}").unlink(missing_ok=True)
    remove_figures(results / "figures" / suite, SOME_FIGURES)


def remove_figures(folder: Path, names: Iterable[str]) -> None:
    """Delete the figures of these names that an earlier report has drawn, if there are any."""
    for name in names:
        for end in FORMATS:
            (folder / f"{name}.{end}").unlink(missing_ok=True)


def write_digests(results: Path, suite: str) -> None:
    """Write the digests of the tables and figures of a suite, after all of them are written."""
    folders = [results / kind / suite for kind in _FOLDERS]
    files = [
        p for folder in folders for p in sorted(folder.glob("[!.]*")) if p.is_file() and p.name != DIGESTS
    ]
    content = {
        "suite": suite,
        "made_from": made_from(results, suite),
        "files": digests.of_files(results, [str(path.relative_to(results)) for path in files]),
    }
    digests.write_json(results / "tables" / suite / DIGESTS, content)


def write_of_claims(results: Path) -> None:
    """Write the digests of the verdicts on claims, after they are written."""
    files = digests.of_files(results, (CLAIMS, CLAIMS_TEXT))
    digests.write_json(results / CLAIMS_DIGESTS, {"files": files})


def require_as_made(results: Path, path: Path) -> None:
    """Refuse a table or figure of a suite, or verdicts on claims, that were changed since they were made.

    Args:
        results: the folder of results.
        path: in it; other files have no digest here, and pass.

    Raises:
        UserError: it was changed, or the digests were.
    """
    place = path.relative_to(results)
    folders = place.parent.parts
    if str(place) in (CLAIMS, CLAIMS_TEXT):
        listing, again = results / CLAIMS_DIGESTS, suggested_command("claims", results=results)
    elif len(folders) > 1 and folders[0] in _FOLDERS:
        suite = "/".join(folders[1:])
        listing, again = results / "tables" / suite / DIGESTS, _report(results, suite)
    else:
        return
    try:
        if digests.of_file(path) != _part(listing, "files").get(str(place)):
            raise digests.Damaged(f"{path} was changed after it was made (its SHA-256 differs)")
    except digests.Damaged as error:
        raise UserError(f"{error}: make it again with {again}") from None


def require_times_as_used(results: Path, suite: str) -> None:
    """Refuse simulated times other than those that the tables of a suite were made from.

    Raises:
        UserError: they are others, or the digests were changed.
    """
    key = "simulated times"
    try:
        used = _part(results / "tables" / suite / DIGESTS, "made_from").get(key)
    except digests.Damaged as error:
        raise UserError(f"{error}: make the tables again with {_report(results, suite)}") from None
    if made_from(results, suite).get(key) != used:
        raise UserError(
            f"the tables of {suite} were made from other times than {simulated_file.path_of(results, suite)} "
            f"has: make them again with {_report(results, suite)}"
        )


def _part(path: Path, key: str) -> dict[str, str]:
    """A part of a file of digests."""
    part = digests.read_json(path).get(key)
    if not isinstance(part, dict):
        raise digests.Damaged(f"{path} holds what thinwire does not write")
    return part


def _report(results: Path, suite: str) -> str:
    return suggested_command("report", suite, results=results)


def made_from(results: Path, suite: str) -> dict[str, str]:
    """The digests of what the tables of a suite depend on now: its collected records and simulated times."""
    records = digests.read_json(results / COLLECTED).get("records", {})
    own = {path: digest for path, digest in records.items() if path.startswith(f"runs/{suite}/")}
    simulated = simulated_file.path_of(results, suite)
    times = {"simulated times": digests.of_file(simulated)} if simulated.exists() else {}
    return {"records": digests.of_object(own), **times}


DIGITS = 9  # significant ones in tables
# Enough for all digits of any float.
_CONTEXT = Context(prec=2000, rounding=ROUND_HALF_UP)


def table_digits(value: float) -> float:
    """The value as tables give it: with nine significant digits.

    The last digits of a sum differ between processors, and decide on which side of a tie it lies.
    """
    return float(f"{value:.{DIGITS}g}")


def fixed(value: float, digits: int) -> str:
    """A number with so many digits after the point.

    Ties are rounded away from zero, as JavaScript does it on the page of results. What is rounded to zero has
    no sign. A missing number is `nan`, an infinite one `inf`.
    """
    if not math.isfinite(value):
        return str(float(value))
    text = str(Decimal(float(value)).quantize(Decimal(1).scaleb(-digits), context=_CONTEXT))
    return text if Decimal(text) else text.removeprefix("-")


def with_minus(value: float, digits: int) -> str:
    """The same for people: with a minus sign in place of the hyphen."""
    return fixed(value, digits).replace("-", "\N{MINUS SIGN}")


def with_table_digits(table: pd.DataFrame) -> pd.DataFrame:
    """The table with all fractions as its file gives them."""
    fractions = table.select_dtypes("float").items()
    return table.assign(**{str(name): column.map(table_digits) for name, column in fractions})


def write_table(table: pd.DataFrame, path: Path, task: LearningTask | None = None) -> None:
    """Write a table as CSV; missing numbers are empty.

    Args:
        table: with the engine's names of columns.
        path: of the file.
        task: whose names the scores have in the file; a table without scores needs none.
    """
    write_text(path, csv(table if task is None else table.rename(columns=task.columns)))


# Columns whose labels may look like numbers.
_TEXTS = ("suite", "dataset", "model", "method", "kind", "cluster", "baseline", "against", "id", "commit")


def read_csv(path: Path) -> pd.DataFrame:
    """The rows of a table, whose labels are text, also `007` and `NA`."""
    return pd.read_csv(path, dtype=dict.fromkeys(_TEXTS, str), keep_default_na=False, na_values=[""])


def csv(table: pd.DataFrame) -> str:
    """A table as CSV, with nine significant digits."""
    return str(table.to_csv(index=False, float_format=f"%.{DIGITS}g"))


def markdown(heading: str, shown: pd.DataFrame, note: str) -> str:
    """A table in Markdown, whose cells are texts, under a heading and above a note."""
    return f"# {heading}\n\n{shown.to_markdown(index=False, disable_numparse=True)}\n\n{note}\n"
