"""The README's table of the study, and the figures of committed results in the documentation.

`benchmarks/update_docs.py` writes them.
"""

import shutil
import tempfile
from pathlib import Path

import pandas as pd

from benchmarks import committed_tables
from thinwire.base.learning import CLASSIFICATION
from thinwire.config.entries import baselines
from thinwire.config.suite import load
from thinwire.report import report_files
from thinwire.report.figures import speed_ups, style, times_map
from thinwire.report.figures.comparisons import write_trade_off
from thinwire.report.report_files import fixed
from thinwire.report.tables import numbers

SUITE = "laptop"
MODELS = ("lenet", "cnn_bn")
TRADE_OFF = f"{SUITE}_{report_files.TRADE_OFF}.png"
# Figures of the committed results that pages of the documentation show.
COPIED = {
    f"{times_map.MAP}.png": f"{times_map.MAP}.png",
    **{
        f"{Path(suite).name}_{name}.png": f"{suite}/{name}.png"
        for suite, name in (
            (SUITE, report_files.PAIRED_DIFFERENCES),
            ("demo", report_files.against_bytes(CLASSIFICATION)),
            ("demo", report_files.over_epochs(CLASSIFICATION)),
            ("demo", speed_ups.SPEED_UP),
            ("claims/mp2_digits", report_files.against_bytes(CLASSIFICATION)),
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
    runs = _largest(committed_tables.summary(SUITE)).set_index(["model", "method"])
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
    for name, source in COPIED.items():
        shutil.copyfile(committed_tables.FOLDER / "figures" / source, folder / name)


def _accuracy(row: pd.Series) -> str:
    if row.verdict not in SIGNS:
        return f"{fixed(row.score_mean, 2)} %"
    shown = f"{fixed(row.gain_mean, 2)} {SIGNS[row.verdict]}"
    ended = row.done + row[["diverged", "timeout", "failed"]].sum()
    return shown if row.done == ended else f"{shown} ({row.done} of {ended} runs)"


def _largest(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[frame.workers == frame.workers.max()]
