"""What a tuning has chosen: one file in `config/tuned/`, which a suite names with its key `tuned`."""

from pathlib import Path
from typing import Any

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from thinwire.base import digests, folders
from thinwire.base.errors import UserError
from thinwire.base.learning import TASKS, LearningTask
from thinwire.base.options import Strict
from thinwire.config import yaml_file
from thinwire.config.entry_schema import Entry, PrepareFrom
from thinwire.config.tuning_space import tunes
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
