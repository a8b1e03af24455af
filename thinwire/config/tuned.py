"""What a tuning has chosen: one file in `config/tuned/`, which a suite names with its key `tuned`."""

import itertools
from pathlib import Path
from typing import Any

from pydantic import Field, SerializerFunctionWrapHandler, ValidationError, model_serializer

from thinwire import RULES_VERSION, plugins
from thinwire.base import digests, folders
from thinwire.base.errors import Problems, UserError
from thinwire.base.learning import TASKS, LearningTask
from thinwire.base.options import problems
from thinwire.config import tuned_places, tuning_space, yaml_file
from thinwire.config.entries import entries_of
from thinwire.config.entry_schema import Entry, PrepareFrom
from thinwire.config.suite_schema import Suite
from thinwire.config.tuned_places import Drawn, drawn_at
from thinwire.config.tuning_space import tunes
from thinwire.config.yaml_file import Size
from thinwire.optim.inputs import Reading
from thinwire.optim.recipe import Strict
from thinwire.optim.tunable import Tunable, tunable
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
        later = ("batch", "reading", "prefetch", "optimizer", "prepare_from", "tuned_again")
        return {key: value for key, value in dump(self).items() if key not in later or value is not None}


class Choice(Strict):
    """The best trial of a method in one place."""

    trial: int
    recipe: Tunable = Field(description="the values that it drew")
    options: dict[str, Any] = Field(description="the options that it drew; of the first trial none")
    # Of these two the one of the task; None: no trial has ended.
    accuracy_percent: float | None = Field(default=None, description="held-out, mean over its runs")
    bits_per_character: float | None = Field(default=None, description="held-out, mean over its runs")
    payload_bytes: float | None = Field(description="pushed and pulled by a worker, mean over its runs")
    trials_ended: int = Field(description="trials of which all runs are done")
    at_edge: dict[str, str] = Field(description="values near an end of their range: which end")

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
    recipe: dict[str, Any] = Field(description="the suite's own, complete")
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
    """Read the choices for a suite.

    Raises:
        UserError: there are none, or the file was changed after it was written.
    """
    path = path_of(suite)
    if not path.exists():
        raise UserError(f"{show(path)} is missing: `{command(suite)}` makes it")
    content = yaml_file.mapping(path, "a choice of a tuning", "docs/tuning.md")
    own = content.pop("digest", None)
    try:
        tuned = Tuned.model_validate(content)
    except ValidationError as error:
        raise Problems(show(path), problems(error)) from None
    if tuned.digest != own:
        raise UserError(f"{show(path)} was changed after it was written: `{command(suite)}` makes it again")
    return tuned


def with_tuned(suite: Suite, file: Path) -> Suite:
    """The suite in this file, with what was chosen for its methods.

    A method that only `'*'` names may be new, and then has the suite's recipe until the next tuning.

    Raises:
        UserError: a method was not tuned, or was tuned under other conditions; one message lists all reasons.
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
        return _with_drawn(label, entry, here)

    places = {
        f"{dataset}/{model}/{size.label}": {label: entry_at(label, dataset, model, size) for label in entries}
        for dataset, model, size in itertools.product(suite.datasets, suite.models, suite.workers)
    }
    first, *others = places.values()
    made = suite.model_copy(update={"methods": suite.methods | first})
    if all(other == first for other in others):
        return made
    return made.in_places(places, tuned_places.note(suite, tuning))


def _with_drawn(label: str, entry: Entry, drawn: Drawn) -> Entry:
    own = entry.recipe.values if entry.recipe else {}
    return entry.model_copy(
        update={
            "use": entry.use or label,
            "options": entry.options | drawn.options,
            "recipe": tunable(own | drawn.values),
        }
    )


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
    untuned = tuned_places.problems(suite, tuning)
    return [f"tuned: {where} {why}: tune them, or leave out `tuned`" for why in untuned]


def _problems(name: str, entries: dict[str, Entry], tuned: Tuned) -> list[str]:
    """What is wrong with single methods."""
    where, again = show(path_of(name)), f"start `{command(name)}` again"
    found = []
    for label, entry in entries.items():
        if label not in tuned.methods:
            found.append(f"methods.{label}: {where} has no choice for it: {again}")
            continue
        chosen = tuned.methods[label]
        now, then = under(label, entry).model_dump(), chosen.under.model_dump()
        at = tuned.choices(label).values()
        drawn = dict.fromkeys(key for choice in at for key in choice.recipe.values)
        if twice := [key for key in drawn if entry.sets(key)]:
            keys = " and ".join(twice)
            found.append(f"methods.{label}: it sets {keys}, which {where} has chosen: remove it here")
        elif other := [key for key in now | then if now.get(key) != then.get(key)]:
            differ = f"(these differ: {', '.join(other)})"
            found.append(f"methods.{label}: {where} was made for another entry {differ}: {again}")
    return found


def under(label: str, entry: Entry) -> Under:
    """What the choice for a method depends on, besides the suite's recipe."""
    return Under(
        use=entry.use or label,
        options=entry.options,
        epochs=entry.epochs,
        batch=entry.batch,
        reading=entry.reading,
        prefetch=entry.prefetch,
        optimizer=entry.optimizer.model_dump(exclude_unset=True) if entry.optimizer else None,
        prepare_from=entry.prepare_from,
        tuned_again=entry.tuned_again,
        recipe=entry.recipe.values if entry.recipe else {},
        tunes=tunes(label, entry),
    )
