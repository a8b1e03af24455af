"""Labels beside points, where they cover neither each other nor what is drawn."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.text import Text
from matplotlib.typing import ColorType

from thinwire.report.figures.fitted_text import text_width

POINTS = 6.5  # size of the font
_WIDER = 1.07  # letters may be drawn a little wider than they were measured
_HEIGHT = 1.25 * POINTS / 72  # of a label, in inches
_DISTANCES = (0.06, 0.1, 0.16, 0.24, 0.34, 0.46, 0.6, 0.75, 0.95)  # inches from a point to its label
_ANGLES = np.radians(
    [0, 180, 90, 270, 45, 135, 315, 225, 22, 158, 338, 202, 68, 112, 292, 248, 80, 100, 260, 280]
)
_LEADER: dict[str, Any] = {"linewidth": 0.4, "color": "0.5", "zorder": 1.5}
_LEADER_FROM = 0.15  # inches of distance
_EACH = 0.02  # inches between two points of what is drawn, for which a label should leave room
# What is worse: to cover a label, to leave the axes, to cover a drawn point, to be an inch further away.
_LABEL, _OUTSIDE, _DRAWN, _FAR = 1e4, 1e4, 4.0, 30.0


class Point(NamedTuple):
    """A point that has a label, in the units of its axes."""

    label: str
    x: float
    y: float
    colour: ColorType
    bold: bool = False


def write_near(axes: Axes, points: Sequence[Point], drawn: Sequence[np.ndarray]) -> list[Text]:
    """Write a label beside each point, the crowded ones last, with a leader if it is not next to it.

    The limits of the axes must not change any more.

    Args:
        axes: of the points.
        points: in their units.
        drawn: lines that labels should not cover, in these units, of shape (points, 2).
    """
    scale = axes.figure.dpi
    corner, size = np.array(axes.bbox.min) / scale, np.array(axes.bbox.size) / scale
    places = np.array([axes.transData.transform((p.x, p.y)) for p in points]) / scale - corner
    lines = [axes.transData.transform(line) / scale - corner for line in drawn]
    taken = np.vstack([*map(_dense, lines), np.repeat(places, 20, axis=0)])
    order = sorted(range(len(points)), key=lambda i: (np.hypot(*(places - places[i]).T) < 0.5).sum())
    boxes: list[np.ndarray] = []
    texts = []
    for index in order:
        point, place = points[index], places[index]
        wide: np.ndarray = np.array([_WIDER * text_width(point.label, POINTS, point.bold), _HEIGHT])
        low, distance = min(
            (
                (place + distance * toward + wide * (np.sign(np.round(toward, 3)) - 1) / 2, distance)
                for distance in _DISTANCES
                for toward in np.column_stack([np.cos(_ANGLES), np.sin(_ANGLES)])
            ),
            key=lambda it: _cost(it[0], wide, size, boxes, taken) + _FAR * it[1],
        )
        boxes.append(np.array([low, low + wide]))
        middle = low + wide / 2
        if distance > _LEADER_FROM:
            end = np.clip(place, low, low + wide)
            (x, y), (end_x, end_y) = place / size, end / size
            axes.plot([x, end_x], [y, end_y], transform=axes.transAxes, label="_leader", **_LEADER)
        look: dict[str, Any] = {"color": point.colour, "fontweight": "bold" if point.bold else "normal"}
        x, y = middle / size
        texts.append(axes.text(x, y, point.label, transform=axes.transAxes, **look, **_CENTRED))
    return texts


_CENTRED: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": POINTS, "zorder": 5}


def _dense(line: np.ndarray) -> np.ndarray:
    """Points along a line, in inches."""
    steps = np.hypot(*np.diff(line, axis=0).T)
    pieces = [
        np.linspace(start, end, 1 + int(step / _EACH), endpoint=False)
        for start, end, step in zip(line, line[1:], steps)
    ]
    return np.vstack([*pieces, line[-1:]])


def _cost(
    low: np.ndarray, wide: np.ndarray, size: np.ndarray, boxes: Sequence[np.ndarray], taken: np.ndarray
) -> float:
    """How bad a place is for a label."""
    high = low + wide
    outside = np.maximum(0, -low).sum() + np.maximum(0, high - size).sum()
    covered = sum(bool((np.minimum(high, box[1]) > np.maximum(low, box[0])).all()) for box in boxes)
    hidden = ((taken > low) & (taken < high)).all(axis=1).sum()
    return float(_OUTSIDE * outside + _LABEL * covered + _DRAWN * hidden)
