"""Texts of figures that fit, and labels beside the ends of lines and beside points that cover nothing."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.text import Text
from matplotlib.typing import ColorType
from scipy.optimize import isotonic_regression

_MEASURED_POINTS = 100.0  # points at which letters are measured
_ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"


def text_width(text: str, points: float, bold: bool = False) -> float:
    """The width of a line in inches, in the font of the figures."""
    return sum(_advance(letter, bold) for letter in text) * points / 72


def shortened(labels: Sequence[str], inches: float, points: float) -> dict[str, str]:
    """What is shown for each label: all of it, or its beginning and end, no wider than this in bold letters.

    Labels stay different: those that would not have numbers.
    """
    shown: dict[str, str] = {}
    for label in dict.fromkeys(labels):
        text, number = _cut(label, inches, points, bold=True), 1
        while text in shown.values():
            number += 1
            text = _cut(label, inches, points, bold=True, end=f" ({number})")
        shown[label] = text
    return shown


def wrapped(text: str, inches: float, points: float) -> str:
    """The text in lines no wider than this; lines that it has stay apart."""
    lines = []
    for line in text.split("\n"):
        words = [_cut(word, inches, points) for word in line.split(" ")]
        made = words[:1]
        for word in words[1:]:
            if text_width(f"{made[-1]} {word}", points) <= inches:
                made[-1] += f" {word}"
            else:
                made.append(word)
        lines += made
    return "\n".join(lines)


def _cut(text: str, inches: float, points: float, bold: bool = False, end: str = "") -> str:
    """The text if it fits with this end, or else as much of its beginning and of its end as does."""
    if text_width(text + end, points, bold) <= inches:
        return text + end
    for kept in range(len(text) - 1, 1, -1):
        shown = text[: (kept + 1) // 2] + _ELLIPSIS + text[len(text) - kept // 2 :] + end
        if text_width(shown, points, bold) <= inches:
            return shown
    return text[:1] + _ELLIPSIS + end


@lru_cache(maxsize=1000)
def _advance(letter: str, bold: bool) -> float:
    """The width of a letter, in sizes of the font."""
    properties = FontProperties(family="DejaVu Sans", weight="bold" if bold else "normal")
    font = get_font(findfont(properties))
    font.set_size(_MEASURED_POINTS, 72)
    return float(font.load_char(ord(letter)).linearHoriAdvance / 65536 / _MEASURED_POINTS)


class Label(NamedTuple):
    """A label of a point, or of the end of a line, which lies there in the units of its axes."""

    text: str
    x: float
    y: float
    colour: ColorType
    bold: bool = False
    marker: str | None = None  # stands before the label of a line that stands out


_END_POINTS = 6.0  # size of the font beside lines
_LINE = 1.3 * _END_POINTS / 72  # inches from one label to the next
_LONGEST = 1.4  # inches of a label
_END_LEADER = {"arrowstyle": "-", "linewidth": 0.4, "color": "0.6", "shrinkA": 0, "shrinkB": 1}
_GAP = 0.12  # inches between the axes and the labels
_MARKER = 0.06  # inches from a marker to its label


def without_middle(labels: Sequence[str]) -> dict[str, str]:
    """What is written for each label of a line or point: long ones are without their middle."""
    return shortened(labels, _LONGEST, _END_POINTS)


def room_for(labels: Sequence[str]) -> float:
    """The inches that labels need to the right of the axes."""
    widths = [text_width(text, _END_POINTS, bold=True) for text in without_middle(labels).values()]
    return max(widths) + _GAP + _MARKER if widths else 0.0


def write_beside(axes: Axes, ends: Sequence[Label]) -> list[Text]:
    """Write the labels beside the axes, as near to the ends of their lines as they fit.

    If they do not all fit, only lines that stand out have labels: these have markers.
    """
    figure, box, whole = axes.figure, axes.get_position(), axes.transAxes
    width = box.width * figure.get_figwidth()  # type: ignore[union-attr]
    height = box.height * figure.get_figheight()  # type: ignore[union-attr]
    if (len(ends) - 1) * _LINE > height:
        ends = [end for end in ends if end.marker]
    to_axes = axes.transData + whole.inverted()
    ends = sorted(ends, key=lambda end: (end.y, end.text))
    places = apart([height * to_axes.transform((end.x, end.y))[1] for end in ends], _LINE, height)
    shown = without_middle([end.text for end in ends])
    texts = []
    for end, place in zip(ends, places):
        x, y = at = (width + _GAP) / width, place / height
        leader = axes.annotate("", (end.x, end.y), at, textcoords="axes fraction", arrowprops=_END_LEADER)
        leader.set_annotation_clip(False)
        if end.marker:
            axes.plot(x, y, transform=whole, clip_on=False, marker=end.marker, markersize=3, color=end.colour)
        label = end._replace(text=shown[end.text])
        texts.append(_write(axes, label, x + _MARKER / width, y, _END_POINTS, ha="left"))
    return texts


def _write(axes: Axes, label: Label, x: float, y: float, points: float, **more: str | float) -> Text:
    """Write a label at a place of the axes, in their widths and heights."""
    weight = "bold" if label.bold else "normal"
    text = axes.text(x, y, label.text, transform=axes.transAxes, fontsize=points, fontweight=weight)
    text.set(color=label.colour, va="center", **more)
    return text


def apart(wanted: Sequence[float], distance: float, most: float) -> list[float]:
    """The places next to those wanted (in ascending order) that keep a distance, from 0 to `most`.

    The sum of the squared moves is least: this is an isotonic regression.
    """
    if not len(wanted):
        return []
    steps = distance * np.arange(len(wanted))
    moved = isotonic_regression(np.asarray(wanted) - steps).x
    return list(np.clip(moved, 0, max(0, most - steps[-1])) + steps)


_POINTS = 6.5  # size of the font near points
_WIDER = 1.07  # letters may be drawn a little wider than they were measured
_HEIGHT = 1.25 * _POINTS / 72  # of a label, in inches
_DISTANCES = (0.06, 0.1, 0.16, 0.24, 0.34, 0.46, 0.6, 0.75, 0.95)  # inches from a point to its label
_ANGLES = np.radians(
    [0, 180, 90, 270, 45, 135, 315, 225, 22, 158, 338, 202, 68, 112, 292, 248, 80, 100, 260, 280]
)
_DIRECTIONS = np.column_stack([np.cos(_ANGLES), np.sin(_ANGLES)])
_LEADER_FROM = 0.15  # inches of distance
_EACH = 0.02  # inches between two points of what is drawn, for which a label should leave room
# What is worse: to cover a label, to leave the axes, to cover a drawn point, to be an inch further away.
_LABEL, _OUTSIDE, _DRAWN, _FAR = 1e4, 1e4, 4.0, 30.0


def write_near(axes: Axes, points: Sequence[Label], drawn: Sequence[np.ndarray]) -> list[Text]:
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
        wide: np.ndarray = np.array([_WIDER * text_width(point.text, _POINTS, point.bold), _HEIGHT])
        low, distance = min(
            (
                (place + distance * toward + wide * (np.sign(np.round(toward, 3)) - 1) / 2, distance)
                for distance in _DISTANCES
                for toward in _DIRECTIONS
            ),
            key=lambda it: _cost(it[0], wide, size, boxes, taken) + _FAR * it[1],
        )
        boxes.append(np.array([low, low + wide]))
        if distance > _LEADER_FROM:
            end = np.clip(place, low, low + wide)
            leader = np.transpose([place / size, end / size])
            axes.plot(
                *leader, transform=axes.transAxes, label="_leader", color="0.5", linewidth=0.4, zorder=1.5
            )
        x, y = (low + wide / 2) / size
        texts.append(_write(axes, point, x, y, _POINTS, ha="center", zorder=5))
    return texts


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
