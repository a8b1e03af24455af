"""Panels of lines, with their labels."""

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.typing import ColorType
from scipy.optimize import isotonic_regression

from thinwire.report.figures import looks, style
from thinwire.report.figures.fitted_text import shortened, text_width, wrapped

POINTS = 6.0  # size of the font
_LINE = 1.3 * POINTS / 72  # inches from one label to the next
_LONGEST = 1.4  # inches of a label
_GAP = 0.12  # inches between the axes and the labels
_MARKER = 0.06  # inches from a marker to its label
_LEADER: dict[str, object] = {"arrowstyle": "-", "linewidth": 0.4, "color": "0.6", "shrinkA": 0, "shrinkB": 1}


class End(NamedTuple):
    """The end of a line, in the units of its axes."""

    label: str
    x: float
    y: float
    colour: ColorType
    bold: bool = False
    marker: str | None = None  # stands before the label


def shown(labels: Sequence[str]) -> dict[str, str]:
    """What is written for each label: long ones are without their middle."""
    return shortened(labels, _LONGEST, POINTS)


def length(labels: Sequence[str]) -> float:
    """The length of the longest label in inches, as it is written."""
    return max((text_width(text, POINTS, bold=True) for text in shown(labels).values()), default=0.0)


def room_for(labels: Sequence[str]) -> float:
    """The inches that labels need to the right of the axes."""
    return length(labels) + _GAP + _MARKER if labels else 0.0


def write_labels(axes: Axes, ends: Sequence[End]) -> list[Text]:
    """Write the labels beside the axes, as near to the ends of their lines as they fit.

    If they do not all fit, only lines that stand out have labels: these have markers.
    """
    width, height = _inches(axes)
    if (len(ends) - 1) * _LINE > height:
        ends = [end for end in ends if end.marker]
    to_axes = axes.transData + axes.transAxes.inverted()
    ends = sorted(ends, key=lambda end: (end.y, end.label))
    places = apart([height * to_axes.transform((end.x, end.y))[1] for end in ends], _LINE, height)
    texts = shown([end.label for end in ends])
    return [_label(axes, end, texts[end.label], (width + _GAP, at)) for end, at in zip(ends, places)]


def apart(wanted: Sequence[float], distance: float, most: float) -> list[float]:
    """The places next to those wanted (in ascending order) that keep a distance, from 0 to `most`.

    The sum of the squared moves is least: this is an isotonic regression.
    """
    if not len(wanted):
        return []
    steps = distance * np.arange(len(wanted))
    moved = isotonic_regression(np.asarray(wanted) - steps).x
    return list(np.clip(moved, 0, max(0, most - steps[-1])) + steps)


def _label(axes: Axes, end: End, label: str, inches: tuple[float, float]) -> Text:
    """Write a label, a marker before it, and a leader from the marker to the end of the line."""
    width, height = _inches(axes)
    marker = inches[0] / width, inches[1] / height
    axes.annotate(
        "", (end.x, end.y), marker, textcoords="axes fraction", arrowprops=_LEADER, annotation_clip=False
    )
    look: dict[str, Any] = {"transform": axes.transAxes, "color": end.colour}
    if end.marker:
        axes.plot(*marker, marker=end.marker, markersize=3, clip_on=False, **look)
    return axes.text(
        marker[0] + _MARKER / width,
        marker[1],
        label,
        fontsize=POINTS,
        fontweight="bold" if end.bold else "normal",
        ha="left",
        va="center",
        **look,
    )


def _inches(axes: Axes) -> tuple[float, float]:
    figure = axes.figure
    box = axes.get_position()
    return box.width * figure.get_figwidth(), box.height * figure.get_figheight()  # type: ignore[union-attr]


# Inches around the axes of a panel, and their height.
_LEFT, _RIGHT, _BOTTOM, _TOP, _HEIGHT = 0.48, 0.04, 0.42, 0.26, 1.75
_TITLE_POINTS = 7.0
_WEAK = {"linewidth": 0.7, "alpha": 0.45, "zorder": 1.2}


def layout(titles: Sequence[str], methods: Sequence[str]) -> tuple[Figure, list[Axes]]:
    """A figure with a panel for each title, at most two beside each other, each as wide as a column.

    Args:
        titles: of the panels.
        methods: whose labels need room to the right of the axes.
    """
    right = room_for(methods)
    panel_width = style.COLUMN_INCHES
    titles = [wrapped(title, panel_width - _LEFT - _RIGHT, _TITLE_POINTS) for title in titles]
    lines = 1 + max(title.count("\n") for title in titles)
    panel_height = _BOTTOM + _HEIGHT + _TOP * lines
    columns = min(2, len(titles))
    width, height = columns * panel_width, -(-len(titles) // columns) * panel_height
    figure = plt.figure(figsize=(width, height))
    own = panel_width - _LEFT - right - _RIGHT
    made = []
    for number, title in enumerate(titles):
        row, column = divmod(number, columns)
        left, bottom = column * panel_width + _LEFT, height - (row + 1) * panel_height + _BOTTOM
        axes = figure.add_axes((left / width, bottom / height, own / width, _HEIGHT / height))
        place: dict[str, Any] = {"x": -_LEFT / own, "y": 1 + _TOP / 3 / _HEIGHT}
        axes.set_title(title, fontsize=_TITLE_POINTS, loc="left", pad=0, **place)
        made.append(axes)
    return figure, made


def line_look(method: str, strong: Collection[str], baselines: Collection[str]) -> dict[str, Any]:
    """How the line of a method is drawn: thick for baselines, thin and faint if it is not a strong one."""
    thick = method in baselines
    look = looks.look(method, thick)
    if method not in strong:
        return {"label": method, "color": look.colour, **_WEAK}
    return {
        "label": method,
        "color": look.colour,
        "marker": look.marker,
        "markersize": 2.5,
        "dashes": look.dash or (None, None),
        "linewidth": style.THICK if thick else style.THIN,
        # A thin line that coincides with a thick one is seen on top of it.
        "zorder": 1.5 if thick else 2,
    }


def end_of(line: dict[str, Any], x: float, y: float, baselines: Collection[str]) -> End:
    """The end of a line that looks like this."""
    return End(line["label"], x, y, line["color"], line["label"] in baselines, line.get("marker"))
