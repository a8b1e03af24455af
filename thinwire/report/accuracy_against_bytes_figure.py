"""The figure `accuracy_against_bytes`: what each method has sent when it has learned that much."""

from collections.abc import Collection
from pathlib import Path

import pandas as pd

from thinwire.report import accuracy_panels, accuracy_points
from thinwire.report.accuracy_panels import Axis
from thinwire.report.panels import say
from thinwire.report.payload import preparation_note, with_megabytes
from thinwire.report.result_names import AGAINST_BYTES

_AXIS = Axis("megabytes", "payload pushed and pulled by a worker, MB", log=True)


def write(curves: pd.DataFrame, folder: Path, baselines: Collection[str] = ()) -> None:
    """Draw a line for each method and the Pareto front of their ends; the axis of bytes is logarithmic.

    Args:
        curves: one row for each evaluation of each run.
        folder: for the figure.
        baselines: labels of methods with thick black lines.
    """
    # Means over the repetitions at each epoch, because runs that adapt their traffic send different bytes.
    points = accuracy_points.of_curves(with_megabytes(curves), "megabytes")
    stem = folder / AGAINST_BYTES
    # A single worker sends nothing, and a logarithmic axis has no zero.
    sent = points.means.megabytes > 0
    panels = accuracy_points.panels(points.means[sent])
    if not panels:
        say("No run that is done has sent anything: there is no accuracy to show against bytes.", stem)
        return
    notes = ["dotted: the Pareto front of the ends", *points.left_out, *preparation_note(curves)]
    if unsent := int((~sent).sum()):
        notes.append(accuracy_points.left_out_phrase(unsent, "point", "before the first byte"))
    accuracy_panels.draw(panels, _AXIS, stem, notes, baselines, front=True)
