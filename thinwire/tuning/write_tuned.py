"""Writes what a tuning has chosen, with the record of all trials."""

import math
from typing import Any

import pandas as pd

from thinwire import digests
from thinwire.config import suite as suites
from thinwire.config import tuned, tuning_space, yaml_file
from thinwire.config.ranges import Range
from thinwire.config.suite_methods import entries_of
from thinwire.config.suite_schema import Entry
from thinwire.config.tuned import Choice, Cost, Tuned
from thinwire.config.tuned_options import ranges
from thinwire.files import write_text
from thinwire.optim.tunable import tunable
from thinwire.rules_version import RULES_VERSION
from thinwire.tuning import choose

_HEAD = "# Written by `{command}`; docs/tuning.md explains it. The record of all trials is {trials}.\n"


def write_tuned(name: str, runs: pd.DataFrame) -> Tuned:
    """Choose for each method of a suite, and write `config/tuned/NAME.yaml` and `NAME.csv`.

    Args:
        name: of the suite.
        runs: of all trials, as `runs_of_trials` gives them.
    """
    suite, tuning = suites.read(suites.path_of(name)), tuning_space.read(name)
    trials_path = tuned.trials_path(name)
    write_text(trials_path, runs.to_csv(index=False))
    table = choose.trials(runs)
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
            label: _choice(label, entry, table, runs, tuning.space.ranges)
            for label, entry in entries_of(suite).items()
        },
    )
    head = _HEAD.format(command=tuned.command(name), trials=trials_path.name)
    content = _content(made) | {"digest": made.digest}
    write_text(tuned.path_of(name), head + yaml_file.text_of(content))
    return made


def _choice(
    label: str, entry: Entry, table: pd.DataFrame, runs: pd.DataFrame, space: dict[str, Range]
) -> Choice:
    """The choice for one method."""
    of_method = table[table.method == label]
    found = choose.best(of_method)
    first_run = runs[(runs.method == label) & (runs.trial == found.trial)].iloc[0]
    under = tuned.under(label, entry)
    drawn = ranges(under.tunes) if found.trial > 0 else {}
    values = {key: float(first_run[key]) for key in space}
    options = {name: type(range_.low)(first_run[f"option/{name}"]) for name, range_ in drawn.items()}
    named = [*((k, space[k], v) for k, v in values.items()), *((k, drawn[k], v) for k, v in options.items())]
    edges = {key: range_.edge(value) for key, range_, value in named}
    return Choice(
        trial=int(found.trial),
        recipe=tunable(values),
        options=options,
        accuracy_percent=_number(found.accuracy_percent),
        payload_bytes=_number(found.payload_bytes),
        trials_ended=int(of_method.ended.sum()),
        at_edge={key: edge for key, edge in edges.items() if edge is not None and found.ended},
        under=under,
    )


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _content(made: Tuned) -> dict[str, object]:
    """The content of the file; of the recipes of methods only what was drawn."""
    content: dict[str, Any] = made.model_dump(mode="json")
    for label, choice in made.methods.items():
        content["methods"][label]["recipe"] = choice.recipe.model_dump(
            exclude_none=True, exclude_defaults=True
        )
    return content
