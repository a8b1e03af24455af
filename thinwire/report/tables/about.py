"""What tables say about their suite."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import pandas as pd

from thinwire.base.learning import LearningTask
from thinwire.config import tuned
from thinwire.config.cell import Cell
from thinwire.config.entries import baselines, entries_of, prepared_from, task_of
from thinwire.config.suite_schema import Suite
from thinwire.optim.recipe import BELONGS, Recipe
from thinwire.optim.tunable import SECTIONS, values_of
from thinwire.report.rows.quantities import has_partition, partition_of


def own_recipes(suite: Suite) -> dict[str, str]:
    """For each such method what differs: `batch 512, lars, lr 0.02, momentum 0.95`."""
    every = _parts(suite.recipe)
    found = {}
    for label in entries_of(suite):
        own = _parts_of(suite, label)
        if other := [part for key, part in own.items() if part != every.get(key)]:
            found[label] = ", ".join(other)
    return found


def note(suite: Suite) -> str:
    """Explains these differences, and where they come from; empty if there are none."""
    own = own_recipes(suite)
    if suite.tuned is None and not own:
        return ""
    every = _parts(suite.recipe)
    others = [_parts_of(suite, label) for label in own]
    differing = {key for key, part in every.items() if any(other.get(key) != part for other in others)}
    shown = differing | values_of(suite.recipe).keys()
    common = ", ".join(part for key, part in every.items() if key in shown)
    origin = "The suite sets these values."
    if suite.tuned is not None:
        origin = (
            f"These values were chosen on held-out {task_of(suite).inputs}, in "
            f"{tuned.read(suite.tuned).cost.runs:,} runs (config/tuned/{suite.tuned}.yaml). Each tuned "
            f"method had an equal number of trials.{suite.places_note}"
        )
        # A suite names every method that was tuned. The others are those that only its `'*'` has found.
        if untuned := [label for label in entries_of(suite) if label not in suite.methods]:
            origin += f" Not tuned, with the recipe of the suite: {', '.join(untuned)}."
    which = "where it differs from that of the suite" if own else "of all methods that of the suite"
    return f"Recipe: {which} ({common}). {origin}"


def _parts_of(suite: Suite, label: str) -> dict[str, str]:
    """The same of a method; `lr 0.05 to 0.1` if a tuning has chosen other values in other places."""
    recipes = [place.recipe_of(label) for place in suite.everywhere()]
    parts = _parts(recipes[0])
    for key in values_of(recipes[0]):
        values = [values_of(recipe)[key] for recipe in recipes]
        if min(values) < max(values):
            parts[key] = f"{key} {min(values):g} to {max(values):g}"
    return parts


def _parts(recipe: Recipe) -> dict[str, str]:
    """What an entry of a suite may set, by key, as a person reads it. Epochs have a column of their own."""
    optimizer = recipe.optimizer
    others = [key for key, names in BELONGS.items() if key not in SECTIONS and optimizer.name in names]
    return {
        "batch": f"batch {recipe.batch}",
        "name": optimizer.name,
        **{key: f"{key} {value:g}" for key, value in values_of(recipe).items()},
        **{key: f"{key} {getattr(optimizer, key)}" for key in others},
        "reading": f"{recipe.reading} reading",
        "prefetch": "with prefetching" if recipe.prefetch else "without prefetching",
    }


def partition_in_words(rows: pd.DataFrame) -> str:
    """The same as a person reads it: `dirichlet 0.1, divergence 0.55`; empty if there is none."""
    if not has_partition(rows):
        return ""
    partition, divergence = partition_of(rows).values()
    return f"{partition}, divergence {divergence:.2f}"


DIVERGENCE = (
    "Divergence: the total variation between the labels of a worker and those of all, of texts between their "
    "characters; mean over workers and runs, from 0 to 1."
)


def partitions_note(runs: pd.DataFrame, names: Sequence[str]) -> str:
    """Says how the workers of each cell have divided the data, or nothing; `names` are of the runs' cells."""
    words = {name: partition_in_words(rows) for name, rows in runs.groupby(pd.Index(names), sort=False)}
    shown = "; ".join(f"{name}: {text}" for name, text in words.items() if text)
    return f"Partitions of the training data. {shown}. {DIVERGENCE}" if shown else ""


class About(NamedTuple):
    """What the tables say beside their numbers."""

    title: str
    evaluated_on: str
    baselines: tuple[str, ...]  # labels; scores and bytes are compared with the first
    task: LearningTask
    recipes: Mapping[str, str] = MappingProxyType({})  # by label: where it is not that of the suite
    recipes_note: str = ""
    cluster: str | None = None  # of emulated runs
    subset: str | None = None  # says which part of the suite is shown, if it is not the whole
    prepared_from: Mapping[str, str] = MappingProxyType({})  # by label: if another cell's preparation is used
    noise: str | None = None  # about the noise floor of tuning

    @property
    def baseline(self) -> str:
        """The label of the suite's baseline."""
        return self.baselines[0]

    @classmethod
    def of(cls, suite: Suite, subset: str | None = None) -> "About":
        """What the tables of this suite say."""
        recipes = own_recipes(suite), note(suite)
        labels = tuple(baselines(suite))
        from_ = prepared_from(suite)
        return cls(
            suite.title, suite.evaluate_on, labels, task_of(suite), *recipes, suite.cluster, subset, from_
        )


_PARTS: dict[str, Callable[[Cell], str]] = {
    "Data sets": lambda cell: cell.dataset,
    "Models": lambda cell: cell.model.label,
    "Methods": lambda cell: cell.method.label,
    "Workers": lambda cell: cell.size_label,
    "Repetitions": lambda cell: f"seed{cell.repetition}",
}


def subset_note(runs: pd.DataFrame, every: Sequence[Cell], baseline: str) -> str | None:
    """Say which part of a suite these runs are; None if they are all of it.

    `every` has all cells of the suite.
    """
    columns = ["dataset", "model", "method", "workers", "nodes", "repetition"]
    collected = set(runs[columns].itertuples(index=False, name=None))
    shown = [cell for cell in every if tuple(map(cell.labels.get, columns)) in collected]
    if len(shown) == len(every):
        return None
    note = f"A subset: {len(shown)} of the suite's {len(every)} runs."
    for part, name_of in _PARTS.items():
        names, all_names = (dict.fromkeys(map(name_of, cells)) for cells in (shown, every))
        if len(names) < len(all_names):
            note += f" {part}: {', '.join(names)} ({len(names)} of {len(all_names)})."
    if baseline not in {cell.method.label for cell in shown}:
        note += f" The baseline {baseline} is not among them, so there is nothing to compare with."
    return note
