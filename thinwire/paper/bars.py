"""A figure that the paper draws itself: a bar for each of some values."""

from pathlib import Path

from matplotlib import pyplot as plt

from thinwire.errors import UserError
from thinwire.paper.declarations import Bars
from thinwire.paper.values import Value, number_of
from thinwire.report import style

_INCHES_FOR_A_BAR = 0.24
_INCHES_FOR_THE_AXIS = 0.45
_LESS, _MORE = "0.45", "#c46a00"  # colours of bars to the right and to the left of zero
_BESIDE_POINTS = 2  # between the end of a bar and its number


def draw(bars: Bars, values: dict[str, Value], stem: Path) -> None:
    """Draw the bars from the top, each as long as the number that the paper prints, which stands beside it.

    Raises:
        UserError: there is no value of a name.
    """
    for name in bars.bars.values():
        if name not in values:
            raise UserError(f"a bar in paper/values.yaml: there is no value {name!r}; declare it there")
    style.use()
    texts = [values[name].text for name in bars.bars.values()]
    numbers = list(map(_length, texts))
    height = _INCHES_FOR_THE_AXIS + _INCHES_FOR_A_BAR * len(numbers)
    figure, axes = plt.subplots(figsize=(style.COLUMN_INCHES, height))
    colours = [_MORE if number < 0 else _LESS for number in numbers]
    drawn = axes.barh(list(bars.bars), numbers, color=colours)
    axes.bar_label(drawn, texts, padding=_BESIDE_POINTS, fontsize=7)
    axes.invert_yaxis()
    axes.axvline(0, color="0.1", linewidth=0.8)
    axes.margins(x=0.25)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel(bars.axis)
    style.save(figure, stem)
    plt.close(figure)


def _length(text: str) -> float:
    """The number that a value prints; zero if it prints a word, such as n/a, which then has no bar."""
    try:
        return number_of(text)
    except ValueError:
        return 0.0
