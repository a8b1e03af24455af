"""The figures of a suite that are made from its runs, and which of them it has."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from thinwire.report import (
    accuracy_against_bytes_figure,
    accuracy_over_epochs_figure,
    accuracy_over_time_figure,
    paired_differences_figure,
    performance_profile_figure,
    result_names,
    style,
    traffic_figure,
)
from thinwire.report.savings import CELL


class Frames(NamedTuple):
    """What the figures show."""

    runs: pd.DataFrame  # a row for each run
    curves: pd.DataFrame  # a row for each evaluation
    traffic: pd.DataFrame  # a row for each run, channel, verb and kind of payload
    comparisons: pd.DataFrame  # a row for each cell, method and kind
    to_target: pd.DataFrame  # a row for each cell, method, kind and target


def write(frames: Frames, folder: Path, baselines: Sequence[str] = ()) -> list[str]:
    """Write the figures, and return sentences that say which one is not drawn, and why.

    Args:
        frames: of one suite.
        folder: for the figures.
        baselines: labels of methods that are drawn thick and black, or named in bold.
    """
    style.use()
    drawn: dict[str, tuple[Callable[..., None], pd.DataFrame]] = {
        result_names.OVER_EPOCHS: (accuracy_over_epochs_figure.write, frames.curves),
        result_names.AGAINST_BYTES: (accuracy_against_bytes_figure.write, frames.curves),
        result_names.OVER_TIME: (accuracy_over_time_figure.write, frames.curves),
        result_names.TRAFFIC_FIGURE: (traffic_figure.write, frames.traffic),
        result_names.PAIRED_DIFFERENCES: (paired_differences_figure.write, frames.comparisons),
        result_names.PROFILE: (performance_profile_figure.write, frames.to_target),
    }
    cells = len(frames.runs[CELL].drop_duplicates())
    timed = bool((frames.runs.kind != "inprocess").any())
    repetitions = frames.runs.repetition.nunique()
    names = result_names.of_runs(cells, timed, repetitions)
    for name in names:
        draw, frame = drawn[name]
        draw(frame, folder, baselines)
    for name in drawn.keys() - set(names):
        for end in result_names.FORMATS:
            # It may be there, from a report on more runs.
            (folder / f"{name}.{end}").unlink(missing_ok=True)
    if repetitions < result_names.FEWEST_REPETITIONS:
        return ["Figures of accuracy are not drawn: with one repetition, they would show no comparison."]
    return _not_drawn(names, cells)


def _not_drawn(names: Sequence[str], cells: int) -> list[str]:
    sentences = []
    if result_names.OVER_TIME not in names:
        sentences.append(f"{result_names.OVER_TIME} is not drawn: runs in one process have no times.")
    if result_names.PROFILE not in names:
        needed = f"it needs {result_names.FEWEST_CELLS} combinations of data set, model and workers"
        sentences.append(f"{result_names.PROFILE} is not drawn: {needed}, and there are {cells}.")
    return sentences
