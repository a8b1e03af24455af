"""Texts of figures that fit: how wide a text is, and what is shown of one that has too little room."""

from collections.abc import Sequence
from functools import lru_cache

from matplotlib.font_manager import FontProperties, findfont, get_font

_MEASURED_POINTS = 100.0  # points at which letters are measured
_GAP = "\N{HORIZONTAL ELLIPSIS}"


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
        shown = text[: (kept + 1) // 2] + _GAP + text[len(text) - kept // 2 :] + end
        if text_width(shown, points, bold) <= inches:
            return shown
    return text[:1] + _GAP + end


@lru_cache(maxsize=1000)
def _advance(letter: str, bold: bool) -> float:
    """The width of a letter, in sizes of the font."""
    properties = FontProperties(family="DejaVu Sans", weight="bold" if bold else "normal")
    font = get_font(findfont(properties))
    font.set_size(_MEASURED_POINTS, 72)
    return float(font.load_char(ord(letter)).linearHoriAdvance / 65536 / _MEASURED_POINTS)
