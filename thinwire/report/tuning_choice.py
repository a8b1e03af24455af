"""What a tuning chooses: its figure and its file."""

import math
from collections.abc import Collection, Sequence
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
from thinwire.config.entries import entries_of, heirs
from thinwire.config.suite_task import task_of
from thinwire.config.tuned import Choice, Chosen, Cost, Tuned, Under
from thinwire.config.tuning_space import Range, Tuning, ranges
from thinwire.optim.tunable import tunable
from thinwire.report.figures import style
from thinwire.report.figures.lines import line_look
from thinwire.report.tuning_runs import at_place, best, eligible, trials


def best_so_far(table: pd.DataFrame, task: LearningTask) -> pd.DataFrame:
    """`trials` of a place with the column `best_score`: the best of this trial and of those before it."""
    gain = (task.sign * table.tuned_score).fillna(float("-inf"))
    best_gain = gain.groupby(table.method, sort=False).cummax()
    return table.assign(best_score=task.sign * best_gain.where(best_gain > float("-inf")))


NAME = "best_so_far"


def write_figure(
    tables: Sequence[pd.DataFrame], folder: Path, task: LearningTask, baselines: Collection[str] = ()
) -> None:
    """Write `best_so_far`.

    Args:
        tables: as `trials` gives them, one of each place in which something is chosen.
        folder: for the figure.
        task: what the runs learn.
        baselines: labels of methods whose lines are thick and black.
    """
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
    axes.set(
        xlabel="trials",
        ylabel=task.score_with_unit(f"best held-out {task.score} so far"),
    )
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    style.finish(figure, folder / NAME, note)


_HEAD = "# Written by `{command}`; docs/tuning.md explains it. The record of all trials is {trials}.\n"


def write_runs(name: str, runs: pd.DataFrame) -> None:
    """Write the runs of a tuning, all or those that are there, to `config/tuned/NAME.csv`."""
    columns = task_of(suites.read(suites.path_of(name))).columns
    write_text(tuned.trials_path(name), runs.rename(columns=columns).to_csv(index=False))


def write_tuned(name: str, runs: pd.DataFrame) -> Tuned:
    """Choose for each method of a suite, and write `config/tuned/NAME.yaml` and `NAME.csv`.

    Args:
        name: of the suite.
        runs: all, as `runs_of_trials` gives them.
    """
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
    content = _content(made) | {"digest": made.digest}
    write_text(tuned.path_of(name), head + yaml_file.text_of(content))
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
    space, of_method = tuning.space.ranges, trials(runs)
    found = best(eligible(runs, tuning, task), task)
    first_run = runs[runs.trial == found.trial].iloc[0]
    drawn = options_drawn if found.trial > 0 else {}
    values = {key: float(first_run[key]) for key in space}
    options = {name: type(range_.low)(first_run[f"option/{name}"]) for name, range_ in drawn.items()}
    named = [*((k, space[k], v) for k, v in values.items()), *((k, drawn[k], v) for k, v in options.items())]
    edges = {key: range_.edge(value) for key, range_, value in named}
    score: dict[str, Any] = {task.columns["tuned_score"]: _number(found.tuned_score)}
    return Choice(
        trial=int(found.trial),
        recipe=tunable(values),
        options=options,
        **score,
        payload_bytes=_number(found.payload_bytes),
        trials_ended=int(of_method.ended.sum()),
        at_edge={key: edge for key, edge in edges.items() if edge is not None and found.ended},
    )


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
