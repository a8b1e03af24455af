"""The figure `accuracy_over_epochs`: how fast each method learns, whatever an epoch costs."""

from collections.abc import Collection
from pathlib import Path

import pandas as pd

from thinwire.report import accuracy_panels, accuracy_points
from thinwire.report.accuracy_panels import Axis
from thinwire.report.panels import say
from thinwire.report.payload import preparation_note, with_megabytes
from thinwire.report.result_names import OVER_EPOCHS


def write(curves: pd.DataFrame, folder: Path, baselines: Collection[str] = ()) -> None:
    """Draw a line for each method, a panel for each data set, model, cluster and kind.

    Args:
        curves: one row for each evaluation of each run.
        folder: for the figure.
        baselines: labels of methods with thick black lines.
    """
    points = accuracy_points.of_curves(with_megabytes(curves), "megabytes")
    stem = folder / OVER_EPOCHS
    if points.means.empty:
        say("No run that is done has an accuracy to show over epochs.", stem)
        return
    panels = accuracy_points.panels(points.means)
    notes = [*points.left_out, *preparation_note(curves)]
    accuracy_panels.draw(panels, Axis("epoch", "epoch"), stem, notes, baselines, bands=True)
