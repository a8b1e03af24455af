"""The figure `accuracy_over_time`: how soon each method has learned that much, where runs have times."""

from collections.abc import Collection
from pathlib import Path

import pandas as pd

from thinwire.report import accuracy_panels, accuracy_points
from thinwire.report.accuracy_panels import Axis
from thinwire.report.panels import say
from thinwire.report.payload import with_megabytes
from thinwire.report.result_names import OVER_TIME

_AXIS = Axis("train_seconds", "training on the slowest worker, without evaluation, s", log=True)


def write(curves: pd.DataFrame, folder: Path, baselines: Collection[str] = ()) -> None:
    """Draw a line for each method of the runs that have times; kinds have panels of their own.

    Args:
        curves: one row for each evaluation of each run; `train_seconds` is missing where there is no time.
        folder: for the figure.
        baselines: labels of methods with thick black lines.
    """
    stem = folder / OVER_TIME
    timed = curves[curves.train_seconds.notna()] if "train_seconds" in curves else curves[:0]
    if timed.empty or not (timed.status == "done").any():
        say("No run that is done has a time; the table of the suite says why.", stem)
        return
    points = accuracy_points.of_curves(with_megabytes(timed), "train_seconds", "megabytes")
    panels = accuracy_points.panels(points.means[points.means.train_seconds > 0])
    if not panels:
        say("No run that is done has an accuracy to show over time.", stem)
        return
    accuracy_panels.draw(panels, _AXIS, stem, points.left_out, baselines, cost="train_seconds")
