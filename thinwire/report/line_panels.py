"""Panels of lines with room for labels at the ends, and how a line looks that stands out or does not."""

from collections.abc import Collection, Sequence
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from thinwire.report import line_labels, style
from thinwire.report.fitted_text import wrapped
from thinwire.report.line_labels import End

# Inches around the axes of a panel, and their height.
_LEFT, _RIGHT, _BOTTOM, _TOP, _HEIGHT = 0.48, 0.04, 0.42, 0.26, 1.75
_TITLE_POINTS = 7.0
_WEAK = {"color": "0.62", "linewidth": 0.7, "zorder": 1.2}
_WEAK_LABEL = "0.4"


def layout(titles: Sequence[str], methods: Sequence[str], above: bool) -> tuple[Figure, list[Axes]]:
    """A figure with a panel for each title, at most two beside each other, each as wide as a column.

    Args:
        titles: of the panels.
        methods: whose labels need room.
        above: are the labels above the axes? Otherwise they are to the right.
    """
    extra, right = line_labels.room_above(methods) if above else (0.0, line_labels.room_beside(methods))
    panel_width = style.COLUMN_INCHES
    titles = [wrapped(title, panel_width - _LEFT - _RIGHT, _TITLE_POINTS) for title in titles]
    lines = 1 + max(title.count("\n") for title in titles)
    panel_height = _BOTTOM + _HEIGHT + extra + _TOP * lines
    columns = min(2, len(titles))
    width, height = columns * panel_width, -(-len(titles) // columns) * panel_height
    figure = plt.figure(figsize=(width, height))
    own = panel_width - _LEFT - right - _RIGHT
    made = []
    for number, title in enumerate(titles):
        row, column = divmod(number, columns)
        left, bottom = column * panel_width + _LEFT, height - (row + 1) * panel_height + _BOTTOM
        axes = figure.add_axes((left / width, bottom / height, own / width, _HEIGHT / height))
        place: dict[str, Any] = {"x": -_LEFT / own, "y": 1 + (extra + _TOP / 3) / _HEIGHT}
        axes.set_title(title, fontsize=_TITLE_POINTS, loc="left", pad=0, **place)
        made.append(axes)
    return figure, made


def line_look(
    method: str, looks: dict[str, Any], strong: Collection[str], baselines: Collection[str]
) -> dict[str, Any]:
    """How the line of a method is drawn: thin and grey, if it is not among the strong ones."""
    if method not in strong:
        return {"label": method, **_WEAK}
    return {
        "label": method,
        "color": looks["palette"][method],
        "marker": looks["markers"][method],
        "markersize": 2.5,
        "dashes": looks["dashes"][method] or (None, None),
        "linewidth": looks["sizes"][method],
        # A thin line that coincides with a thick one is seen on top of it.
        "zorder": 1.5 if method in baselines else 2,
    }


def end_of(line: dict[str, Any], x: float, y: float, baselines: Collection[str]) -> End:
    """The end of a line that looks like this."""
    marker = line.get("marker")
    colour = line["color"] if marker else _WEAK_LABEL
    return End(line["label"], x, y, colour, line["label"] in baselines, marker)
