"""The README's table of the study, and the figures of the study in the documentation.

`benchmarks/update_docs.py` writes them. Those of the README show the largest number of workers only, because
those of the whole suite would be too large.
"""

import shutil
import tempfile
from pathlib import Path

import pandas as pd

from thinwire.config.baselines import baselines
from thinwire.config.suite import load
from thinwire.plugins import ROOT
from thinwire.report import accuracy_against_bytes_figure, bandwidth_figure, figure_names, style
from thinwire.report.collect import read_curves
from thinwire.suggested_command import REFERENCE

# Accuracy and bytes are in one suite, simulated times in the other.
SUITE, TIMES = "laptop", "laptop_times"
MODELS = ("lenet", "cnn_bn")
# Of the simulated places: links between machines, and workers that compute like GPUs.
CLUSTER, PROFILE = "ethernet_10g", "a100_tf32"
OF_README = (f"{SUITE}_{figure_names.AGAINST_BYTES}", f"{TIMES}_{bandwidth_figure.NAME}")
OF_PAGE = (f"{SUITE}_{figure_names.PAIRED_DIFFERENCES}",)
SAVED = {
    "payload saved, %": "total_reduction_percent",
    "busiest link saved, %": "busiest_link_reduction_percent",
    "between nodes saved, %": "between_nodes_reduction_percent",
}
SIGNS = {"different": "≠", "same": "=", "cannot_be_told": "?"}
_FOLDER = ROOT / REFERENCE


def table() -> str:
    """The table in Markdown: accuracies on both models with their verdicts, and bytes saved on the first."""
    runs = _largest(_read(SUITE, "summary")).set_index(["model", "method"])
    rows = [
        ["method", *(f"`{model}`, %" for model in MODELS), *SAVED],
        ["---"] * (1 + len(MODELS) + len(SAVED)),
    ]
    for method in runs.loc[MODELS[0]].index:
        accuracies = [_accuracy(runs.loc[model, method]) for model in MODELS]
        # Rounding makes -0.0 of a small negative number.
        saved = [f"{round(runs.loc[(MODELS[0], method), column], 1) + 0.0:.1f}" for column in SAVED.values()]
        rows.append([f"`{method}`", *accuracies, *saved])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def draw(folder: Path) -> None:
    """Write `NAME.png` into a folder, for each name of `OF_README` and of `OF_PAGE`."""
    times = _read(TIMES, "times")
    simulated = times[(times.kind == "simulated") & (times.cluster == CLUSTER) & (times.profile == PROFILE)]
    style.use()
    with tempfile.TemporaryDirectory() as drawn:
        accuracy_against_bytes_figure.write(
            _largest(read_curves(_FOLDER, SUITE)), Path(drawn), baselines(load(SUITE))
        )
        bandwidth_figure.write(simulated, Path(drawn), baselines(load(TIMES)))
        for name, of in zip((figure_names.AGAINST_BYTES, bandwidth_figure.NAME), OF_README):
            shutil.copyfile(Path(drawn) / f"{name}.png", folder / f"{of}.png")
    (of,) = OF_PAGE
    shutil.copyfile(
        _FOLDER / "figures" / SUITE / f"{figure_names.PAIRED_DIFFERENCES}.png", folder / f"{of}.png"
    )


def _accuracy(row: pd.Series) -> str:
    shown = f"{row.accuracy_mean_percent:.2f} ± {row.accuracy_sd_percent:.2f}"
    ended = row.done + row[["diverged", "timeout", "failed"]].sum()
    if row.done < ended:
        shown += f" ({row.done} of {ended})"
    return f"{shown} {SIGNS[row.verdict]}" if row.verdict in SIGNS else shown


def _largest(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[frame.workers == frame.workers.max()]


def _read(suite: str, name: str) -> pd.DataFrame:
    return pd.read_csv(_FOLDER / "tables" / suite / f"{name}.csv")
