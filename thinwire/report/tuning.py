"""What a tuning chooses: from its runs to the best trials, its figure and its file."""

import math
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd

from thinwire import RULES_VERSION
from thinwire.base import digests
from thinwire.base.files import write_text
from thinwire.base.learning import LearningTask
from thinwire.config import suite as suites
from thinwire.config import tuned, tuning_space, yaml_file
from thinwire.config.cell import Cell
from thinwire.config.entries import entries_of, heirs, task_of
from thinwire.config.expand import cells
from thinwire.config.trials import finalists_path, of_trial_label, only_finalists, trial_label
from thinwire.config.tuned import Choice, Chosen, Cost, Tuned, Under
from thinwire.config.tuning_space import EVERYWHERE, Range, Tuning, ranges
from thinwire.config.yaml_file import Size
from thinwire.optim.tunable import tunable, values_of
from thinwire.records import record
from thinwire.records.record import Record
from thinwire.report.figures import style
from thinwire.report.figures.looks import line_look
from thinwire.train.record_check import record_of
from thinwire.train.result_files import record_folder


def runs_of_trials(suite: str, results: Path) -> tuple[pd.DataFrame, list[str]]:
    """The runs of the tuning of a suite, and the paths of those that are missing.

    If the first runs of all trials are there, this writes which of them are the finalists. docs/tuning.md
    explains the columns.

    Raises:
        UserError: a record is damaged or changed, or belongs to another state of the suite.
    """
    rows: list[dict[str, Any]] = []
    missing: list[str] = []
    tuning = tuning_space.read(suite)
    stages = suites.stages(suite)
    for finals in (False, True):
        wanted = [cell for stage in stages if stage.finals == finals for cell in cells(stage.name)]
        if missing or not wanted:
            break
        if finals:
            _write_finalists(suite, pd.DataFrame(rows), tuning, results)
        for cell in only_finalists(wanted, results):
            folder = record_folder(results, cell)
            if not (folder / record.RUN).exists():
                missing.append(f"{cell.suite}/{cell.path}")
                continue
            repetition = cell.repetition + tuning.repetitions * finals
            row = _row(cell, record_of(folder, cell)) | {"repetition": repetition}
            rows.append(row | {"run_sha256": digests.of_file(folder / record.RUN)})
    methods = list(dict.fromkeys(row["method"] for row in rows))
    rows.sort(key=lambda row: (methods.index(row["method"]), row["trial"]))
    return pd.DataFrame(rows), missing


def _write_finalists(suite: str, runs: pd.DataFrame, tuning: Tuning, results: Path) -> None:
    """Write the labels of the finalists in each place; a choice over all places has the same in each."""
    assert tuning.finalists is not None
    task = task_of(suites.read(suites.path_of(suite)))
    every = tuning.model_copy(update={"choose": "each"}).places
    found: dict[str, list[str]] = {place: [] for place in every}
    for place in tuning.places:
        for method, own in at_place(runs, place).groupby("method", sort=False):
            best_of = [trial_label(str(method), t) for t in finalists(trials(own), tuning.finalists, task)]
            for each in every if place == EVERYWHERE else [place]:
                found[each] += best_of
    path = finalists_path(results, suite)
    # A file that is written again is newer than the runs that follow from it, which would be made again.
    with suppress(digests.Damaged):  # or missing
        if digests.read_json(path) == found:
            return
    digests.write_json(path, found)


def _row(cell: Cell, run: Record) -> dict[str, object]:
    method, trial = of_trial_label(cell.method.label)
    row: dict[str, object] = {
        "method": method,
        "trial": trial,
        **{name: label for name, label in cell.labels.items() if name not in ("suite", "method")},
        **values_of(cell.recipe),
        **{f"option/{name}": value for name, value in cell.method.options.items()},
        "status": run.status,
        "reason": run.reason,
        "fingerprint": run.fingerprint,
    }
    made = run.result
    if made is None:
        return row | dict.fromkeys(("tuned_score", "payload_bytes", "epochs", "seconds"), math.nan)
    return row | {
        "tuned_score": getattr(made, run.learns.test_column),
        "payload_bytes": made.traffic.payload_push_bytes + made.traffic.payload_pull_bytes,
        "epochs": made.steps / (run.steps_per_epoch or 1),
        "seconds": made.seconds.train + made.seconds.eval,
    }


def trials(runs: pd.DataFrame) -> pd.DataFrame:
    """One row for each method and trial, in their order.

    Columns: `method`, `trial`, `ended` (are all its runs done?), and the means over its runs,
    `tuned_score` and `payload_bytes`. A trial has neither if one of its runs diverged, failed or was
    skipped.
    """
    grouped = runs.groupby(["method", "trial"], sort=False)
    table = grouped[["tuned_score", "payload_bytes"]].mean()
    table["ended"] = grouped.status.agg(lambda status: bool((status == "done").all()))
    # Rounded, because the order in which floats are added must not break a tie.
    table = table.round(6)
    table.loc[~table.ended, ["tuned_score", "payload_bytes"]] = math.nan
    return table.reset_index()


def best(of_method: pd.DataFrame, task: LearningTask) -> pd.Series:
    """The best of the rows of one method in `trials`; the first one if no trial has ended."""
    return _best_first(of_method, task).iloc[0]


def finalists(of_method: pd.DataFrame, number: int, task: LearningTask) -> list[int]:
    """The trials of the best rows of one method in `trials`: at most `number`, of those that have ended."""
    return [int(trial) for trial in _best_first(of_method[of_method.ended], task).trial[:number]]


def _best_first(of_method: pd.DataFrame, task: LearningTask) -> pd.DataFrame:
    least_first = [not task.higher_is_better, True, True]
    return of_method.sort_values(
        ["tuned_score", "payload_bytes", "trial"], ascending=least_first, na_position="last"
    )


def at_place(runs: pd.DataFrame, place: str) -> pd.DataFrame:
    """The runs in one place of `Tuning.places`."""
    if place == EVERYWHERE:
        return runs
    dataset, model, size = place.split("/")
    labels = [Size(workers=w, nodes=n).label for w, n in zip(runs.workers, runs.nodes)]
    return runs[(runs.dataset == dataset) & (runs.model == model) & (pd.Series(labels, runs.index) == size)]


def eligible(runs: pd.DataFrame, tuning: Tuning, task: LearningTask) -> pd.DataFrame:
    """The rows of `trials` of one method in one place among which the choice is: all, or the finalists'.

    If no trial has ended its first runs, there are no finalists; if no finalist has ended its further runs,
    they are worse than every other. In both cases all are eligible.
    """
    of_method = trials(runs)
    if tuning.finalists is None:
        return of_method
    first = trials(runs[runs.repetition < tuning.repetitions])
    last = of_method[of_method.trial.isin(finalists(first, tuning.finalists, task)) & of_method.ended]
    return last if len(last) else of_method


def best_so_far(table: pd.DataFrame, task: LearningTask) -> pd.DataFrame:
    """`trials` of a place with the column `best_score`: the best of this trial and of those before it."""
    gain = (task.sign * table.tuned_score).fillna(float("-inf"))
    best_gain = gain.groupby(table.method, sort=False).cummax()
    return table.assign(best_score=task.sign * best_gain.where(best_gain > float("-inf")))


NAME = "best_so_far"


def write_figure(
    tables: Sequence[pd.DataFrame], folder: Path, task: LearningTask, baselines: Collection[str] = ()
) -> None:
    """Write `best_so_far`; `tables` are those of `trials`, one of each place in which something is chosen."""
    style.use()
    methods = list(tables[0].method.unique())
    figure, axes = plt.subplots(figsize=(1.5 * style.COLUMN_INCHES, 2.6))
    over = "the seeds" if len(tables) == 1 else f"the seeds and {len(tables)} places"
    note = f"means over {over}; the first trial has the suite's own recipe"
    every = pd.concat([best_so_far(table, task) for table in tables])
    mean = every.groupby(["method", "trial"], sort=False).best_score.agg(lambda best: best.mean(skipna=False))
    for method, line in mean.reset_index().groupby("method", sort=False):
        if line.best_score.isna().all():
            note += f"; no trial of {method} ended"
            continue
        look = line_look(str(method), methods, baselines)
        axes.step(line.trial + 1, line.best_score, where="post", **look)
    style.ticks(axes, log=False)
    axes.set(xlabel="trials", ylabel=task.score_with_unit(f"best held-out {task.score} so far"))
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    style.finish(figure, folder / NAME, note)


_HEAD = "# Written by `{command}`; docs/tuning.md explains it. The record of all trials is {trials}.\n"


def write_runs(name: str, runs: pd.DataFrame) -> None:
    """Write the runs of a tuning, all or those that are there, to `config/tuned/NAME.csv`."""
    columns = task_of(suites.read(suites.path_of(name))).columns
    write_text(tuned.trials_path(name), runs.rename(columns=columns).to_csv(index=False))


def write_tuned(name: str, runs: pd.DataFrame) -> Tuned:
    """Choose for each method of a suite from all its runs; write `config/tuned/NAME.yaml` and `NAME.csv`."""
    suite, tuning = suites.read(suites.path_of(name)), tuning_space.read(name)
    task, entries = task_of(suite), entries_of(suite)
    inherited = heirs(entries)
    trials_path = tuned.trials_path(name)
    write_runs(name, runs)
    made = Tuned(
        rules=RULES_VERSION,
        space=tuning.digest,
        recipe=suite.recipe.model_dump(mode="json"),
        trials_sha256=digests.of_file(trials_path),
        cost=Cost(
            runs=len(runs),
            epochs=round(float(runs.epochs.sum()), 2),
            seconds=round(float(runs.seconds.sum()), 1),
        ),
        methods={
            label: Chosen(inherits=inherited[label], under=tuned.under(label, entry))
            if label in inherited
            else _chosen(label, tuned.under(label, entry), runs, tuning, task)
            for label, entry in entries.items()
        },
    )
    head = _HEAD.format(command=tuned.command(name), trials=trials_path.name)
    write_text(tuned.path_of(name), head + yaml_file.text_of(_content(made) | {"digest": made.digest}))
    return made


def _chosen(label: str, under: Under, runs: pd.DataFrame, tuning: Tuning, task: LearningTask) -> Chosen:
    """What is chosen for one method."""
    own, drawn = runs[runs.method == label], ranges(under.tunes)
    at = {place: _choice(at_place(own, place), tuning, drawn, task) for place in tuning.places}
    return Chosen(at=at, under=under)


def _choice(
    runs: pd.DataFrame, tuning: Tuning, options_drawn: dict[str, Range], task: LearningTask
) -> Choice:
    """The choice for one method in one place, from its runs there."""
    found = best(eligible(runs, tuning, task), task)
    first_run = runs[runs.trial == found.trial].iloc[0]
    drawn = options_drawn if found.trial > 0 else {}
    values = {key: float(first_run[key]) for key in tuning.space.ranges}
    options = {name: type(range_.low)(first_run[f"option/{name}"]) for name, range_ in drawn.items()}
    tried = {key: runs[key] for key in values} | {name: runs[f"option/{name}"] for name in options}
    edges = {key: _edge(value, tried[key]) for key, value in (values | options).items() if found.ended}
    score = {task.columns["tuned_score"]: _number(found.tuned_score)}
    return Choice(
        trial=int(found.trial),
        recipe=tunable(values),
        options={**options},
        **score,
        payload_bytes=_number(found.payload_bytes),
        trials_ended=int(trials(runs).ended.sum()),
        at_edge={key: edge for key, edge in edges.items() if edge is not None},
    )


def _edge(value: float, tried: pd.Series) -> str | None:
    """Is it the lowest or the highest that was tried? Then a better one may lie beyond."""
    return "lowest" if value <= tried.min() else "highest" if value >= tried.max() else None


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _content(made: Tuned) -> dict[str, object]:
    """The content of the file; of the recipes of methods only what was drawn."""
    content: dict[str, Any] = made.model_dump(mode="json")
    for label, chosen in made.methods.items():
        for place, choice in chosen.at.items():
            content["methods"][label]["at"][place]["recipe"] = choice.recipe.model_dump(
                exclude_none=True, exclude_defaults=True
            )
    return content
