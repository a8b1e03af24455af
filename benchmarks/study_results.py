"""The README's table of the study, and the figures of committed results in the documentation.

`benchmarks/update_docs.py` writes them.
"""

import shutil
import tempfile
from pathlib import Path

import pandas as pd

from benchmarks import committed_tables
from thinwire.base.learning import CLASSIFICATION
from thinwire.config.entries import baselines, tuned_again
from thinwire.config.suite import load
from thinwire.report import report_files
from thinwire.report.figures import looks, speed_ups, style, times_map
from thinwire.report.figures.comparisons import write_trade_off
from thinwire.report.figures.labels import write_beside
from thinwire.report.report_files import fixed
from thinwire.report.tables import numbers

SUITE = "laptop"
MODELS = ("lenet", "cnn_bn")
TRADE_OFF = f"{SUITE}_{report_files.TRADE_OFF}.png"
# Differences to SSGD over the number of epochs, each of which has a suite of its own; and on more images.
LENGTH = "length.png"
EPOCHS = (6, 12, 24)
MORE_IMAGES = "length/images_60000"
# Figures of the committed results that pages of the documentation show.
COPIED = {
    f"{times_map.MAP}.png": f"{times_map.MAP}.png",
    **{
        f"{Path(suite).name}_{name}.png": f"{suite}/{name}.png"
        for suite, name in (
            (SUITE, report_files.PAIRED_DIFFERENCES),
            ("demo", report_files.of_scores(CLASSIFICATION, report_files.AGAINST_BYTES)),
            ("demo", report_files.of_scores(CLASSIFICATION, report_files.OVER_EPOCHS)),
            ("demo", speed_ups.SPEED_UP),
            ("claims/mp2_digits", report_files.of_scores(CLASSIFICATION, report_files.AGAINST_BYTES)),
        )
    },
}
SAVED = {
    "payload saved, %": "total_reduction_percent",
    "between nodes saved, %": "between_nodes_reduction_percent",
}
SIGNS = {"different": "≠", "no_effect": "=", "inconclusive": "?"}


def table() -> str:
    """The table in Markdown: bytes saved on the first model, and differences in accuracy on both."""
    runs = _largest(committed_tables.summary(SUITE))
    # SSGD tuned again is no other method; the study says how much it differs.
    runs = runs[runs.method != tuned_again(load(SUITE))].set_index(["model", "method"])
    rows = []
    for method in runs.loc[MODELS[0]].index:
        accuracies = [_accuracy(runs.loc[model, method]) for model in MODELS]
        saved = [numbers.percent(runs.loc[(MODELS[0], method), column]) for column in SAVED.values()]
        rows.append([f"`{method}`", *saved, *accuracies])
    heading = ["method", *SAVED, *(f"accuracy of `{model}`" for model in MODELS)]
    return committed_tables.markdown(heading, rows)


def draw(folder: Path) -> None:
    """Write the figures into a folder."""
    style.use()
    with tempfile.TemporaryDirectory() as scratch:
        drawn = Path(scratch)
        write_trade_off(CLASSIFICATION, committed_tables.summary(SUITE), drawn, baselines(load(SUITE)))
        shutil.copyfile(drawn / f"{report_files.TRADE_OFF}.png", folder / TRADE_OFF)
        _draw_length(drawn / LENGTH)
        shutil.copyfile(drawn / LENGTH, folder / LENGTH)
    for name, source in COPIED.items():
        shutil.copyfile(committed_tables.FOLDER / "figures" / source, folder / name)


def _draw_length(path: Path) -> None:
    at = {f"length/epochs_{epochs}": epochs for epochs in EPOCHS} | {MORE_IMAGES: 2 * EPOCHS[-1]}
    compared = pd.concat(
        committed_tables.table(suite, "comparisons").assign(suite=suite, at=place)
        for suite, place in at.items()
    )
    methods = list(dict.fromkeys(compared.method))
    figure, (axes,) = looks.layout([style.heading(compared)], methods)
    margin = compared.margin.max()
    axes.axhspan(-margin, margin, color="0.88", linewidth=0, zorder=0)
    axes.axhline(0, color="0.1", linewidth=0.8)
    ends = []
    for number, method in enumerate(methods):
        own = compared[compared.method == method]
        look = looks.line_look(method, methods, ())
        # A little beside each other, because intervals overlap.
        beside = own["at"] * 1.02 ** (number - (len(methods) - 1) / 2)
        axes.vlines(beside, own.gain_low, own.gain_high, color=look["color"], linewidth=0.6)
        longer = own.suite != MORE_IMAGES
        axes.plot(beside[longer], own.gain_mean[longer], **look)
        axes.plot(beside[~longer], own.gain_mean[~longer], **look | {"linestyle": "none"})
        ends.append(looks.end_of(look, beside.iloc[-1], own.gain_mean.iloc[-1], ()))
    axes.set_xscale("log", base=2)
    axes.set_xticks(list(at.values()), [*map(str, EPOCHS), "8, of 60,000\nimages"])
    axes.set_xlabel("epochs", fontsize=7)
    axes.set_ylabel("difference to ssgd, points", fontsize=7)
    write_beside(axes, ends)
    note = (
        f"mean of {compared.n.max()} paired differences with a 95 % t interval; shaded: less "
        f"than {margin:g} points"
    )
    style.finish(figure, path, note)


def _accuracy(row: pd.Series) -> str:
    if row.verdict not in SIGNS:
        return f"{fixed(row.score_mean, 2)} %"
    shown = f"{fixed(row.gain_mean, 2)} {SIGNS[row.verdict]}"
    if row.at_chance_level > 0:
        shown += f" ({row.at_chance_level:g} at chance level)"
    ended = row.done + row[["diverged", "failed"]].sum()
    return shown if row.done == ended else f"{shown} ({row.done} of {ended} runs)"


def _largest(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[frame.workers == frame.workers.max()]
