"""The figure of a tuning: the best held-out accuracy so far, against the number of trials."""

from collections.abc import Collection
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns

from thinwire.report import method_looks, style
from thinwire.tuning import choose

NAME = "best_so_far"


def write(table: pd.DataFrame, folder: Path, baselines: Collection[str] = ()) -> None:
    """Write `best_so_far`.

    Args:
        table: as `choose.trials` gives it.
        folder: for the figure.
        baselines: labels of methods whose lines are thick and black.
    """
    style.use()
    lines = choose.best_so_far(table).assign(trials=table.trial + 1)
    methods = list(dict.fromkeys(table.method))
    figure, axes = plt.subplots(figsize=(1.5 * style.COLUMN_INCHES, 2.6))
    sns.lineplot(
        lines,
        x="trials",
        y="best_percent",
        hue="method",
        style="method",
        size="method",
        hue_order=methods,
        style_order=methods,
        size_order=methods,
        errorbar=None,
        drawstyle="steps-post",
        markeredgewidth=0.3,
        ax=axes,
        **method_looks.looks(methods, baselines),
    )
    style.ticks(axes, log=False)
    style.lower_thick_lines(axes)
    axes.set(xlabel="trials", ylabel="best held-out accuracy so far, %")
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    note = "means over the seeds; the first trial has the suite's own recipe"
    if without := [m for m in methods if lines.best_percent[lines.method == m].isna().all()]:
        note += f"; no trial of {', '.join(without)} ended"
    figure.text(1, -0.07, note, ha="right", va="top", fontsize=6, color="0.4")
    style.save(figure, folder / NAME)
    plt.close(figure)
