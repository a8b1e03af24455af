"""What a suite takes from a tuning, which may have had other data sets, models and numbers of workers."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from thinwire import RULES_VERSION, plugins
from thinwire.base.errors import Problems
from thinwire.config import tuning_space
from thinwire.config.entries import entries_of, heirs
from thinwire.config.entry_schema import Entry
from thinwire.config.suite_schema import Suite
from thinwire.config.tuned import Tuned, command, path_of, read, under
from thinwire.config.tuning_space import EVERYWHERE, SCALES, Tuning
from thinwire.config.yaml_file import Size
from thinwire.plugins import show


class Drawn(NamedTuple):
    """Of a method in one place."""

    values: dict[str, float]  # of the recipe
    options: dict[str, Any]
    ended: bool = True  # has a trial of the method ended there?


def drawn_at(tuning: Tuning, chosen: Mapping[str, Drawn], dataset: str, model: str, size: Size) -> Drawn:
    """What one method takes in one place of a suite, from what was `chosen` by place.

    A data set or model that was not tuned takes what the first one takes. Between two tuned numbers of
    workers, each value of the recipe is interpolated on the scale from which it was drawn, linearly in the
    logarithm of the workers; options are those of the nearer. Beyond them, all is as with the nearest.
    Numbers with which no trial has ended count only for themselves.
    """
    if EVERYWHERE in chosen:
        return chosen[EVERYWHERE]
    dataset = dataset if dataset in tuning.datasets else tuning.datasets[0]
    model = model if model in tuning.models else tuning.models[0]
    count = [
        each
        for each in tuning.workers
        if each.label == size.label or chosen[f"{dataset}/{model}/{each.label}"].ended
    ]
    below, above = _neighbours(count or tuning.workers, size)
    low, high = (chosen[f"{dataset}/{model}/{each.label}"] for each in (below, above))
    if below.workers == above.workers:
        return low
    share = math.log(size.workers / below.workers) / math.log(above.workers / below.workers)
    values = {}
    for key, value in low.values.items():
        onto, back = SCALES[key]
        value = back((1 - share) * onto(value) + share * onto(high.values[key]))
        values[key] = float(f"{value:.4g}")
    return Drawn(values, low.options if share <= 0.5 else high.options)


def _neighbours(tuned: Sequence[Size], size: Size) -> tuple[Size, Size]:
    """The tuned sizes below and above this one; twice the same if it was tuned or lies beyond all."""
    if same := [each for each in tuned if each.label == size.label]:
        return same[0], same[0]
    sizes = sorted(tuned, key=lambda each: each.workers)
    below = [each for each in sizes if each.workers <= size.workers]
    above = [each for each in sizes if each.workers >= size.workers]
    return (below or above[:1])[-1], (above or below[-1:])[0]


def _note(suite: Suite, tuning: Tuning) -> str:
    """Says of numbers of workers that were not tuned where their values come from; empty if one was tuned."""
    if len(tuning.workers) == 1 or tuning.choose == "pooled":
        return ""
    said = ""
    for size in suite.workers:
        below, above = _neighbours(tuning.workers, size)
        if below.workers != above.workers:
            said += f" {size.label} lies between {below.label} and {above.label}, on a logarithmic scale."
        elif below.label != size.label:
            said += f" {size.label} has the values of {below.label}, the nearest that was tuned."
    return said


def with_tuned(suite: Suite, file: Path) -> Suite:
    """The suite in this file, with what was chosen for its methods.

    A method that only `'*'` names may be new, and then has the suite's recipe until the next tuning. A
    UserError lists those that were not tuned, or under other conditions.
    """
    assert suite.tuned is not None
    tuned = read(suite.tuned)
    entries = entries_of(suite)
    for label in entries.keys() - suite.methods.keys() - tuned.methods.keys():
        del entries[label]
    if found := _outdated(suite, tuned) or _problems(suite.tuned, entries, tuned):
        raise Problems(show(file), found)
    tuning = tuning_space.read(suite.tuned)

    def entry_at(label: str, dataset: str, model: str, size: Size) -> Entry:
        entry, at = entries[label], tuned.choices(label)
        drawn = {
            place: Drawn(choice.recipe.values, choice.options, choice.payload_bytes is not None)
            for place, choice in at.items()
        }
        here = drawn_at(tuning, drawn, dataset, model, size)
        # All numbers of workers share a preparation, which depends on the options.
        if here.options and plugins.get("method", entry.use or label).defines("prepare"):
            here = here._replace(options=drawn_at(tuning, drawn, dataset, model, suite.workers[0]).options)
        entry = entry.model_copy(update={"use": entry.use or label})
        return entry.with_drawn(here.values, here.options)

    places = {
        f"{dataset}/{model}/{size.label}": {label: entry_at(label, dataset, model, size) for label in entries}
        for dataset, model, size in itertools.product(suite.datasets, suite.models, suite.workers)
    }
    first, *others = places.values()
    made = suite.model_copy(update={"methods": suite.methods | first})
    if all(other == first for other in others):
        return made
    return made.in_places(places, _note(suite, tuning))


def _outdated(suite: Suite, tuned: Tuned) -> list[str]:
    """Why the choices say nothing about this suite."""
    assert suite.tuned is not None
    where, again = show(path_of(suite.tuned)), f"start `{command(suite.tuned)}` again"
    if tuned.rules != RULES_VERSION:
        return [
            f"tuned: {where} was made under version {tuned.rules} of the rules, and this is version "
            f"{RULES_VERSION}: {again}"
        ]
    tuning = tuning_space.read(suite.tuned)
    if tuned.space != tuning.digest:
        there = show(tuning_space.path_of(suite.tuned))
        return [f"tuned: {where} was made from another {there} than there is now: {again}"]
    recipe = suite.recipe.model_dump(mode="json")
    if other := [key for key in {**recipe, **tuned.recipe} if recipe.get(key) != tuned.recipe.get(key)]:
        return [
            f"tuned: {where} was made with another recipe than this suite has (these differ: "
            f"{', '.join(other)}): {again}, or leave out `tuned`"
        ]
    untuned = _untuned(suite, tuning)
    return [f"tuned: {where} {why}: tune them, or leave out `tuned`" for why in untuned]


def _untuned(suite: Suite, tuning: Tuning) -> Iterator[str]:
    """A clause for data sets and models without a choice; a single one that was tuned stands for all."""
    for kind, chosen, there in (
        ("data sets", tuning.datasets, suite.datasets),
        ("models", tuning.models, suite.models),
    ):
        missing = [label for label in there if label not in chosen]
        if missing and len(chosen) > 1 and tuning.choose == "each":
            yield f"has choices for the {kind} {', '.join(chosen)}, and none for {', '.join(missing)}"


def _problems(name: str, entries: dict[str, Entry], tuned: Tuned) -> list[str]:
    """What is wrong with single methods."""
    where, again = show(path_of(name)), f"start `{command(name)}` again"
    found, inheriting = [], heirs(entries)
    for label, entry in entries.items():
        if label not in tuned.methods:
            found.append(f"methods.{label}: {where} has no choice for it: {again}")
            continue
        chosen = tuned.methods[label]
        now, then = under(label, entry).model_dump(), chosen.under.model_dump()
        at = tuned.choices(label)
        drawn = dict.fromkeys(key for choice in at.values() for key in choice.recipe.values)
        if twice := [key for key in drawn if key in entry.own_values]:
            keys = " and ".join(twice)
            found.append(f"methods.{label}: it sets {keys}, which {where} has chosen: remove it here")
        elif other := [key for key in now | then if now.get(key) != then.get(key)]:
            differ = f"(these differ: {', '.join(other)})"
            found.append(f"methods.{label}: {where} was made for another entry {differ}: {again}")
        elif (first := inheriting.get(label)) in tuned.methods and at != tuned.choices(first):
            own = f"has a choice of its own for it, although it computes what {first} computes"
            found.append(f"methods.{label}: {where} {own}: {again}")
    return found
