"""Writing the tables of a suite, with the notes below them."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from thinwire.base.files import write_text
from thinwire.base.learning import CLASSIFICATION, NEXT_CHARACTER, LearningTask
from thinwire.report import report_files
from thinwire.report.rows.quantities import TARGET_OF_BASELINE
from thinwire.report.tables.about import DIVERGENCE, About, has_partition
from thinwire.report.tables.blocks import Block, blocks
from thinwire.report.tables.formats import latex, markdown, typst
from thinwire.report.tables.numbers import Mark
from thinwire.report.tables.traffic import traffic

_ALWAYS = (
    "Payload: what a worker pushes and pulls in the whole run, as encoded, in millions of bytes; mean over "
    "the workers. Saved: its reduction against {baseline}, on as many workers and nodes; negative where a "
    "method sends more. {Score}: of the weights at the end; mean ± standard deviation (runs that are done)."
)
_COMPARED = (
    "Against {baseline}: verdict on the {score}, in pairs of runs with equal seeds; comparisons.csv has the "
    "intervals."
)
_PREPARED = "Saved with preparation: the bytes that a preparation sent before the runs are counted, too."
_TO_TARGET = "To target: the time of a step, times the median number of steps to {target}."
_SPEED_UP = "Speed-up: of a step, over the shortest step of a baseline ({baselines})."
_SIMULATED = "Simulated times are predictions. times.md shows every cluster that was simulated."
_MARKED = (
    "Bold and underlined: the highest and the second highest of a block, among methods whose runs are all "
    "done and above chance level."
)
_MARKED_SCORE = "{Scores} are marked by their verdicts, and only if none is inconclusive."
_UNMARKED_SCORE = "{Scores} are not marked, because a comparison is inconclusive or none finds a difference."
_AT_CHANCE = {
    CLASSIFICATION.name: "At chance level: the accuracy is at most 1/classes plus three standard deviations, "
    "which guessing reaches too.",
    NEXT_CHARACTER.name: "At chance level: the bits are those of a guess among all characters, or more.",
}
_EPOCHS = "Epochs: 10 for 20 means that 10 were trained, and that they stand for 20, by forecasts of weights."
_ELSEWHERE = "traffic.md shows the other ledgers and the recipes; summary.csv has all columns."


def notes(table: pd.DataFrame, shown: Sequence[Block], about: About) -> list[str]:
    """The notes of a summary, a sentence or some each.

    Args:
        table: the summary with all its columns.
        shown: its blocks.
        about: what to say about the suite.
    """
    columns = {column for block in shown for column in block.columns}
    values = [value for block in shown for row in block.rows for value in row]
    marked = any(value.mark is not Mark.NONE for value in values)
    compared = f"against {about.baseline}" in columns
    simulated = table.time_from.astype("string").str.startswith("simulated").fillna(False)
    untimed = dict.fromkeys(why for why in table.no_time_because if why)
    chosen = {
        _ALWAYS: True,
        _PREPARED: "saved with preparation, %" in columns,
        _COMPARED: compared,
        _TO_TARGET: "to target, s" in columns,
        _SPEED_UP: "speed-up" in columns,
        _SIMULATED: simulated.any(),
        _MARKED: marked,
        _MARKED_SCORE if _score_is_marked(shown, about.task) else _UNMARKED_SCORE: marked and compared,
        _AT_CHANCE[about.task.name]: (table.at_chance_level > 0).any(),
        DIVERGENCE: has_partition(table),
        _EPOCHS: table.virtual_epochs.notna().any(),
    }
    names = {
        "baseline": about.baseline,
        "baselines": ", ".join(about.baselines),
        "score": about.task.score,
        "Score": about.task.score.capitalize(),
        "Scores": about.task.scores.capitalize(),
        "target": about.task.target_of(about.baseline, TARGET_OF_BASELINE),
    }
    return [
        *[note.format(**names) for note, wanted in chosen.items() if wanted],
        *([about.chance] if about.chance and compared else []),
        *[f"No time, because {why}." for why in untimed],
        _ELSEWHERE,
    ]


def _score_is_marked(shown: Sequence[Block], task: LearningTask) -> bool:
    return any(
        value.mark is not Mark.NONE
        for block in shown
        for row in block.rows
        for column, value in zip(block.columns, row)
        if column.endswith(f" {task.axis}")
    )


_FORMATS = {"md": markdown, "tex": latex, "typ": typst}


def write(table: pd.DataFrame, about: About, folder: Path) -> None:
    """Write `summary.csv`, `summary.md`, `summary.tex`, `summary.typ` and `traffic.md`.

    Args:
        table: with the columns of `summarise`, `with_comparisons` and `with_times`.
        about: what to say about the suite.
        folder: of the suite's tables.
    """
    report_files.write_table(table, folder / "summary.csv", about.task)
    for end, text in summary(table, about).items():
        write_text(folder / f"summary.{end}", text)
    write_text(folder / "traffic.md", traffic(table, about))


def summary(table: pd.DataFrame, about: About) -> dict[str, str]:
    """The summary in each format, by the end of its file's name."""
    shown = blocks(table, about)
    below = notes(table, shown, about)
    return {end: form(about.title, about.subset, shown, below) for end, form in _FORMATS.items()}
