"""The summary of a suite in all formats, the table of all ledgers, and the notes below both."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import pandas as pd

from thinwire.base.files import write_text
from thinwire.base.learning import CLASSIFICATION, NEXT_CHARACTER
from thinwire.report import report_files
from thinwire.report.rows.quantities import (
    TARGET_OF_BASELINE,
    TRAFFIC,
    WITH_PREPARATION,
    WITH_SHARE,
    bytes_column,
    has_partition,
    reduction_column,
    runs_to_break_even,
)
from thinwire.report.tables import numbers
from thinwire.report.tables.about import DIVERGENCE, About
from thinwire.report.tables.numbers import Mark
from thinwire.report.tables.summary import Block, blocks, escaped_markdown, latex, markdown, typst

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
    """The notes of a summary with all its columns, a sentence or some each."""
    columns = {column for block in shown for column in block.columns}
    marked = {
        column
        for block in shown
        for row in block.rows
        for column, value in zip(block.columns, row)
        if value.mark is not Mark.NONE
    }
    score_is_marked = any(column.endswith(f" {about.task.axis}") for column in marked)
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
        _MARKED_SCORE if score_is_marked else _UNMARKED_SCORE: marked and compared,
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
        *([about.noise] if about.noise and compared else []),
        *[f"No time, because {why}." for why in untimed],
        _ELSEWHERE,
    ]


_FORMATS = {"md": markdown, "tex": latex, "typ": typst}


def write(table: pd.DataFrame, about: About, folder: Path) -> None:
    """Write `summary.csv`, `summary.md`, `summary.tex`, `summary.typ` and `traffic.md`.

    `table` has the columns of `summarise`, `with_comparisons` and `with_times`.
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


_LEDGERS = (
    "Payload: what a worker pushes and pulls in the whole run, as encoded, in millions of bytes; mean over "
    "the workers. Less: the reduction of bytes against {baseline}, on as many workers and nodes. Push, pull "
    "and total are payload. Wire is what a worker sends over the network, by the formula for a ring, a chain "
    "or a server; mean over the workers. Busiest link is the most that one worker sends, or receives; a "
    "parameter server's link carries the traffic of all workers."
)
_BETWEEN_NODES = "Between nodes: the part of wire that leaves the worker's node."
_LEDGER_PREPARED = (
    "Prepared: the bytes that the method's preparation sent before its runs, and the seconds that it took in "
    "one process. A preparation is made once for each model, data set and seed. Of the reductions, only "
    "{column} counts its bytes. Breaks even: how many runs must share one preparation, so that together they "
    "send no more than as many runs of {baseline}; empty if no number would do. Used by: how many runs of "
    "the table that are done use one preparation. With preparation, per run: the payload of a run and its "
    "share of the preparation, which these runs divide evenly."
)
_LEDGER_PREPARED_FROM = (
    "Prepared from: the method uses the preparation that was made for this seed or data set, and not one for "
    "its own."
)
_LEDGER_EPOCHS = (
    "Epochs: the number that was trained. A method that forecasts weights skips epochs; its row also has "
    "the number that the trained epochs stand for."
)
_TIMED = (
    "Training: seconds on the clock of the slowest worker, without evaluation; mean ± standard deviation "
    "over the runs."
)


def traffic(table: pd.DataFrame, about: About) -> str:
    """The table of all ledgers in Markdown, with the meaning of its columns; `table` is from `summarise`."""
    rows = [row for _, row in table.iterrows()]
    several_nodes = (table.nodes > 1).any()
    prepared, timed = table.preparation_bytes.notna().any(), table.train_seconds.notna().any()
    # Do methods differ in the epochs that they train, or that these stand for?
    own_epochs = table.epochs.nunique() > 1 or table.virtual_epochs.notna().any()
    shown: dict[str, Iterable[object]] = {
        "data set": map(escaped_markdown, table.dataset),
        "model": map(escaped_markdown, table.model),
        "workers": map(numbers.workers, rows),
        "method": map(escaped_markdown, table.method),
    }
    if own_epochs:
        shown["epochs"] = map(numbers.epochs, rows)
    if about.recipes:
        shown["recipe"] = [about.recipes.get(method, "") for method in table.method]
    if about.prepared_from:
        shown["prepared from"] = [about.prepared_from.get(method, "") for method in table.method]
    shown["payload, MB"] = map(numbers.megabytes, table.total_bytes)
    if prepared:
        shown["prepared, MB"] = map(numbers.megabytes, table.preparation_bytes)
        shown["prepared, s"] = map(numbers.whole_seconds, table.preparation_seconds)
        shown["breaks even, runs"] = map(numbers.ratio, runs_to_break_even(table, about.baseline))
        shown["used by, runs"] = map(numbers.runs_that_share, rows)
        shown["with preparation, per run, MB"] = map(numbers.megabytes, table[bytes_column(WITH_SHARE)])
    absent = {"between nodes": not several_nodes, WITH_PREPARATION: not prepared}
    for name in TRAFFIC:
        if not absent.get(name):
            shown[f"{name} less, %"] = map(numbers.percent, table[reduction_column(name)])
    if timed:
        shown["training, s"] = map(numbers.training, rows)
    shown["how"] = table.kind
    text = pd.DataFrame({name: list(values) for name, values in shown.items()})
    chosen = {
        _LEDGERS.format(baseline=about.baseline): True,
        _BETWEEN_NODES: several_nodes,
        _LEDGER_EPOCHS: own_epochs,
        about.recipes_note: about.recipes_note,
        _LEDGER_PREPARED.format(column=f"{WITH_PREPARATION} less, %", baseline=about.baseline): prepared,
        _LEDGER_PREPARED_FROM: about.prepared_from,
        _TIMED: timed,
    }
    parts = [
        f"# Traffic. {escaped_markdown(about.title)}",
        *([escaped_markdown(about.subset)] if about.subset else []),
        text.to_markdown(index=False, disable_numparse=True),
        "\n".join(f"- {escaped_markdown(note)}" for note, wanted in chosen.items() if wanted),
    ]
    return "\n\n".join(parts) + "\n"
