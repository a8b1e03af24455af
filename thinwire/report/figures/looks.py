"""How the lines and points of methods are drawn: their colours, markers and dashes, and panels of lines.

Where there are more lines than can be told apart, the baselines stand out, and the first of the others by a
rule of each figure.
"""

from collections.abc import Collection, Sequence
from hashlib import sha256
from typing import NamedTuple

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from thinwire.report.figures import style
from thinwire.report.figures.labels import Label, room_for, wrapped
from thinwire.report.figures.style import LineLook

_BLACK = (0.1, 0.1, 0.1)
# Colours that differ for the colour-blind, each dark enough for a label on white.
_COLOURS = (
    *("#0173b2", "#c46a00", "#00805c", "#a3479b", "#c03a2b"),
    *("#7a5a2f", "#4b5bb5", "#6f7400", "#c2558c", "#2b8a9a"),
)
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*", "p", "h")
_DASHES = ((), (4, 1.5), (1, 1), (3, 1, 1, 1), (5, 1, 1, 1, 1, 1), (2, 2))


class Look(NamedTuple):
    """How the line and the points of a method are drawn."""

    colour: str | tuple[float, float, float]
    marker: str
    dash: tuple[float, ...]  # lengths of dashes and gaps; none: a solid line


# By label. Other labels that begin with one of these have its colour, such as `daso_blocking`.
_KNOWN = {
    "ssgd": Look(_BLACK, "o", _DASHES[0]),
    "ssgd_bf16": Look(_BLACK, "s", _DASHES[1]),
    "ssgd_one_bucket": Look(_BLACK, "^", _DASHES[2]),
    "ssgd_bf16_one_bucket": Look(_BLACK, "D", _DASHES[3]),
    "daso": Look("#0173b2", "v", _DASHES[0]),
    "dgc": Look("#c46a00", "P", _DASHES[1]),
    "hylo": Look("#00805c", "X", _DASHES[2]),
    "hsgd": Look("#a3479b", "<", _DASHES[3]),
    "multi_step_delay": Look("#c03a2b", ">", _DASHES[4]),
    "mp2": Look("#7a5a2f", "*", _DASHES[5]),
    "wnn": Look("#4b5bb5", "p", _DASHES[0]),
    "local_sgd": Look("#6f7400", "o", _DASHES[1]),
    "local_sgd_4": Look("#6f7400", "s", _DASHES[3]),
    "top_k": Look("#c2558c", "D", _DASHES[2]),
    "top_k_10": Look("#c2558c", "^", _DASHES[4]),
    "ps_sgd": Look("#2b8a9a", "h", _DASHES[5]),
    "power_sgd": Look("#0173b2", "o", _DASHES[2]),
    "sign_sgd": Look("#c46a00", "s", _DASHES[2]),
    "qsgd": Look("#00805c", "^", _DASHES[0]),
    "quantised_all_reduce": Look("#a3479b", "D", _DASHES[0]),
    "one_bit_adam": Look("#c03a2b", "v", _DASHES[1]),
    "ef21": Look("#7a5a2f", "P", _DASHES[0]),
    "demo_sgd": Look("#6f7400", "X", _DASHES[0]),
    "dion": Look("#2b8a9a", "<", _DASHES[0]),
    "diloco": Look("#4b5bb5", "o", _DASHES[4]),
    "des_loc": Look("#c2558c", ">", _DASHES[1]),
    "sparse_loco": Look("#00805c", "*", _DASHES[0]),
    "gossip": Look("#7a5a2f", "h", _DASHES[0]),
    "muloco": Look("#a3479b", "v", _DASHES[4]),
    "acp_sgd": Look("#c03a2b", "p", _DASHES[2]),
    "bsp": Look("#2b8a9a", "v", _DASHES[2]),
    "terngrad": Look("#c2558c", "P", _DASHES[2]),
    "nuqsgd": Look("#6f7400", "p", _DASHES[1]),
    # Their digests give them the look of a label beside them.
    "ssgd_bf16_5mb": Look(_BLACK, "P", _DASHES[3]),
    "ssgd_no_overlap": Look(_BLACK, "<", _DASHES[1]),
    "hylo_exponent_1": Look("#00805c", "D", _DASHES[4]),
    "hylo_random": Look("#00805c", "o", _DASHES[5]),
    "local_sgd_adaptive": Look("#6f7400", "^", _DASHES[1]),
}


def look(label: str, baseline: bool = False) -> Look:
    """How a method is drawn. It follows from its label alone, but baselines are black.

    A label that is not known has the colour of the last known one that it begins with.
    """
    first, second, third, *_ = sha256(label.encode()).digest()
    beginnings = [its.colour for known, its in _KNOWN.items() if label.startswith(f"{known}_")]
    colour = [_COLOURS[first % len(_COLOURS)], *beginnings][-1]
    of_digest = Look(colour, _MARKERS[second % len(_MARKERS)], _DASHES[third % len(_DASHES)])
    found = _KNOWN.get(label, of_digest)
    return found._replace(colour=_BLACK) if baseline else found


# Inches around the axes of a panel, and their height.
_LEFT, _RIGHT, _BOTTOM, _TOP, _HEIGHT = 0.48, 0.04, 0.42, 0.26, 1.75
_TITLE_POINTS = 7.0


def layout(titles: Sequence[str], methods: Sequence[str]) -> tuple[Figure, list[Axes]]:
    """A figure with a panel for each title, at most two beside each other, each as wide as a column.

    The labels of `methods` need room to the right of the axes.
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
        above = 1 + _TOP / 3 / _HEIGHT
        axes.set_title(title, fontsize=_TITLE_POINTS, loc="left", pad=0, x=-_LEFT / own, y=above)
        made.append(axes)
    return figure, made


def line_look(method: str, strong: Collection[str], baselines: Collection[str]) -> LineLook:
    """How the line of a method is drawn: thick for baselines, thin and faint if it is not a strong one."""
    thick = method in baselines
    own = look(method, thick)
    if method not in strong:
        return {"label": method, "color": own.colour, "linewidth": 0.7, "alpha": 0.45, "zorder": 1.2}
    return {
        "label": method,
        "color": own.colour,
        "marker": own.marker,
        "markersize": 2.5,
        "dashes": own.dash or (None, None),
        "linewidth": style.THICK if thick else style.THIN,
        # A thin line that coincides with a thick one is seen on top of it.
        "zorder": 1.5 if thick else 2,
    }


def end_of(line: LineLook, x: float, y: float, baselines: Collection[str]) -> Label:
    """The end of a line that looks like this."""
    return Label(line["label"], x, y, line["color"], line["label"] in baselines, line.get("marker"))


# More lines could not be distinguished.
MOST_LINES = 8


def with_baselines(
    methods: Collection[str], best_first: Collection[str], baselines: Collection[str]
) -> Sequence[str]:
    """Of `methods`, in their order, the baselines and the first others until there are `MOST_LINES`."""
    first = [method for method in methods if method in baselines]
    others = [method for method in best_first if method not in baselines]
    chosen = {*first, *others[: max(0, MOST_LINES - len(first))]}
    return [method for method in methods if method in chosen]
