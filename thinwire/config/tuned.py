"""What a tuning has chosen: one file in `config/tuned/`, which a suite names with its key `tuned`.

A suite may have other data sets, models and numbers of workers than the tuning.
"""

import itertools
from collections.abc import Iterator
from pathlib import Path

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from thinwire import RULES_VERSION, plugins
from thinwire.base import digests, folders
from thinwire.base.errors import Problems, UserError
from thinwire.base.learning import TASKS, LearningTask
from thinwire.base.options import Strict
from thinwire.config import tuning_space, yaml_file
from thinwire.config.entries import entries_of, heirs
from thinwire.config.entry_schema import Entry, PrepareFrom
from thinwire.config.suite_schema import Suite
from thinwire.config.tuning_space import Drawn, Tuning, drawn_at, neighbours, tunes
from thinwire.config.yaml_file import Size
from thinwire.optim.recipe import Reading
from thinwire.optim.tunable import Tunable
from thinwire.plugins import ROOT, show


class Under(Strict):
    """The entry of a method when it was tuned."""

    use: str
    options: dict[str, object]
    epochs: int | None
    batch: int | None = None
    reading: Reading | None = None
    prefetch: bool | None = None
    optimizer: dict[str, object] | None = Field(default=None, description="as the entry has it")
    prepare_from: PrepareFrom | None = None
    tuned_again: bool | None = None
    recipe: dict[str, float] = Field(description="its own values, of keys that were not drawn")
    tunes: dict[str, list[float]] = Field(description="the options that were drawn, with their ranges")

    @model_serializer(mode="wrap")
    def _without_later_keys(self, dump: SerializerFunctionWrapHandler) -> dict[str, object]:
        """Entries without a key that came later keep the digest that they had before there was this key."""
        return {key: value for key, value in dump(self).items() if key == "epochs" or value is not None}


class Choice(Strict):
    """The best trial of a method in one place."""

    trial: int
    recipe: Tunable = Field(description="the values that it drew")
    options: dict[str, object] = Field(description="the options that it drew; of the first trial none")
    # Of these two the one of the task; None: no trial has ended.
    accuracy_percent: float | None = Field(default=None, description="held-out, mean over its runs")
    bits_per_character: float | None = Field(default=None, description="held-out, mean over its runs")
    payload_bytes: float | None = Field(description="pushed and pulled by a worker, mean over its runs")
    trials_ended: int = Field(description="trials of which all runs are done")
    at_edge: dict[str, str] = Field(
        description="values that are the `lowest` or the `highest` of all trials: which of the two"
    )

    @model_serializer(mode="wrap")
    def _with_one_score(self, dump: SerializerFunctionWrapHandler) -> dict[str, object]:
        others = {task.columns["tuned_score"] for task in TASKS.values()} - self.model_fields_set
        return {key: value for key, value in dump(self).items() if key not in others}

    def score(self, task: LearningTask) -> float | None:
        """The held-out score, mean over its runs; None: no trial has ended."""
        found: float | None = getattr(self, task.columns["tuned_score"])
        return found


class Chosen(Strict):
    """What was chosen for a method."""

    inherits: str | None = Field(default=None, description="the label whose choices it takes")
    at: dict[str, Choice] = Field(default={}, description="by place: `digits/cnn/w4`, or `everywhere`")
    under: Under

    @model_serializer(mode="wrap")
    def _its_own_or_inherited(self, dump: SerializerFunctionWrapHandler) -> dict[str, object]:
        return {key: value for key, value in dump(self).items() if value or key == "under"}


class Cost(Strict):
    """What all trials have cost."""

    runs: int
    epochs: float = Field(description="that were trained")
    seconds: float = Field(description="in which the runs trained and evaluated, one after the other")


class Tuned(Strict):
    """The choices of a tuning. docs/tuning.md explains the file."""

    rules: int = Field(description="version of the rules")
    space: str = Field(description="digest of the tuning")
    recipe: dict[str, object] = Field(description="the suite's own, complete")
    trials_sha256: str = Field(description="of the file with the record of all trials")
    cost: Cost
    methods: dict[str, Chosen]

    def choices(self, label: str) -> dict[str, Choice]:
        """The choices for a method by place, its own or those that it inherits."""
        chosen = self.methods[label]
        return chosen.at if chosen.inherits is None else self.methods[chosen.inherits].at

    @property
    def digest(self) -> str:
        """The digest that the file has of itself."""
        return digests.of_identity(self.model_dump(mode="json"))


def path_of(suite: str) -> Path:
    """The file with the choices for the methods of a suite; it is in the folder that has the suite."""
    return folders.home(f"config/{suite}.yaml", ROOT) / "config" / "tuned" / f"{suite}.yaml"


def trials_path(suite: str) -> Path:
    """The record of all trials, one row for each run."""
    return path_of(suite).with_suffix(".csv")


def command(suite: str) -> str:
    """What makes both files."""
    return f"snakemake --config tune={suite}"


def read(suite: str) -> Tuned:
    """The choices for a suite, or a UserError: also if the file was changed after it was written."""
    path = path_of(suite)
    if not path.exists():
        raise UserError(f"{show(path)} is missing: `{command(suite)}` makes it")
    content = yaml_file.mapping(path, "a choice of a tuning", "docs/tuning.md")
    own = content.pop("digest", None)
    tuned = yaml_file.validated(Tuned, content, path)
    trials = trials_path(suite)
    changed = [] if tuned.digest == own else [path]
    if not trials.exists() or digests.of_file(trials) != tuned.trials_sha256:
        changed.append(trials)
    if changed:
        raise UserError(
            f"{show(changed[0])} was changed after it was written, or is missing: delete {show(path)}, and "
            f"`{command(suite)}` makes it again"
        )
    return tuned


def under(label: str, entry: Entry) -> Under:
    """What the choice for a method depends on, besides the suite's recipe."""
    alike = ("options", "epochs", "batch", "reading", "prefetch", "prepare_from", "tuned_again")
    return Under(
        **{key: getattr(entry, key) for key in alike},
        use=entry.use or label,
        optimizer=entry.optimizer.model_dump(exclude_unset=True) if entry.optimizer else None,
        recipe=entry.own_values,
        tunes=tunes(label, entry),
    )


def _note(suite: Suite, tuning: Tuning) -> str:
    """Says of numbers of workers that were not tuned where their values come from; empty if one was tuned."""
    if len(tuning.workers) == 1 or tuning.choose == "pooled":
        return ""
    said = ""
    for size in suite.workers:
        below, above = neighbours(tuning.workers, size)
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
