"""The figures of a suite: accuracy over epochs, accuracy against bytes."""

from collections.abc import Collection
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns

from thinwire.report import style

_KEYS = ["dataset", "model", "workers", "nodes", "method", "epoch", "kind", "evaluated_on"]
_KINDS = {"inprocess": "in process"}


def write(curves: pd.DataFrame, folder: Path, baselines: Collection[str] = ()) -> None:
    """Write `accuracy_over_epochs` and `accuracy_against_bytes`, as PDF and PNG.

    The lines of `baselines` are thick and black, and lie under the others.
    """
    style.use()
    # If some runs ended early, a line would be a mean over fewer seeds from there on.
    ended = curves.status == "done"
    left_out = curves[~ended].drop_duplicates([*_KEYS[:5], "repetition"]).shape[0]
    curves = curves[ended]
    curves = curves.assign(
        panel=[f"{d}, {m}" for d, m in zip(curves.dataset, curves.model)],
        size=[
            f"{w} worker{'s' if w > 1 else ''}" + (f" on {n} nodes" if n > 1 else "")
            for w, n in zip(curves.workers, curves.nodes)
        ],
        megabytes=(curves.payload_push_bytes + curves.payload_pull_bytes + curves.preparation_payload_bytes)
        / 1e6,
    )
    note = f"; {left_out} runs that did not end are left out" if left_out else ""
    prepared = dict.fromkeys(curves.method[curves.preparation_payload_bytes > 0])
    if prepared:
        note += f"; the preparation of {', '.join(prepared)} is counted in bytes, but not in epochs"
    _draw(curves, "epoch", "epoch", folder / "accuracy_over_epochs", note, baselines, errorbar="sd")
    # Means over the repetitions at each epoch, because runs that adapt their traffic send different bytes.
    columns = ["megabytes", "test_accuracy_percent"]
    means = curves.groupby([*_KEYS, "panel", "size"], sort=False)[columns].mean().reset_index()
    # A single worker sends nothing, and a logarithmic axis has no zero.
    without_traffic = set(means["size"]) - set(means[means.megabytes > 0]["size"])
    note += f"; {', '.join(sorted(without_traffic))}: nothing sent" if without_traffic else ""
    means = means[means.megabytes > 0]
    label = "payload pushed and pulled by a worker, MB"
    stem = folder / "accuracy_against_bytes"
    _draw(means, "megabytes", label, stem, note, baselines, errorbar=None, log=True)


def _draw(
    curves: pd.DataFrame,
    x: str,
    label: str,
    stem: Path,
    note: str,
    baselines: Collection[str],
    errorbar: str | None,
    log: bool = False,
) -> None:
    """Draw a row of panels for each data set and model, a column for each cluster, a line for each method."""
    if curves.empty:
        figure = plt.figure(figsize=(style.COLUMN_INCHES, 0.5))
        figure.text(0.5, 0.5, f"no run has anything to show over: {label}", ha="center", va="center")
        style.save(figure, stem)
        plt.close(figure)
        return
    methods = list(dict.fromkeys(curves.method))
    sizes = list(dict.fromkeys(curves.sort_values(["workers", "nodes"])["size"]))
    grid = sns.relplot(
        curves,
        x=x,
        y="test_accuracy_percent",
        hue="method",
        style="method",
        size="method",
        hue_order=methods,
        style_order=methods,
        size_order=methods,
        row="panel",
        col="size",
        col_order=sizes,
        kind="line",
        errorbar=errorbar,
        height=2.4,
        aspect=2 * style.COLUMN_INCHES / len(sizes) / 2.4 * 0.9,
        markeredgewidth=0.3,
        facet_kws={"sharex": "row" if log else True, "sharey": "row"},
        **style.looks(methods, baselines),
    )
    for axes in grid.axes.flat:
        style.ticks(axes, log)
        style.lower_thick_lines(axes)
        # A band of a standard deviation may leave what an accuracy can be.
        low, high = axes.get_ylim()
        axes.set_ylim(max(low, -1), min(high, 102))
    grid.set_titles("{row_name}\n{col_name}")
    (evaluated_on,) = set(curves.evaluated_on)
    grid.set_axis_labels(label, f"{evaluated_on.replace('_', '-')} accuracy, %")
    kinds = ", ".join(_KINDS.get(kind, kind) for kind in sorted(set(curves.kind)))
    spread = ", bands: ± one standard deviation" if errorbar else ""
    note = f"lines: means over the seeds{spread}; runs: {kinds}{note}"
    grid.figure.text(1, -0.01, note, ha="right", va="top", fontsize=6, color="0.4")
    style.save(grid.figure, stem)
    plt.close(grid.figure)
