"""The entries of a suite: plug-ins with options, under labels."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from thinwire.base.options import Strict
from thinwire.config.yaml_file import Label, check_label
from thinwire.optim.recipe import MOST_EPOCHS, Optimizer, PartitionKind, Reading
from thinwire.optim.tunable import Tunable, tunable

EVERY = "*"
# Far more than anybody has. With this limit a typo gives an error message and does not fill the memory.
MOST_LABELS = 1_000  # of data sets, models or methods


# The keys of an entry that replace those of the recipe, and those that only a method has otherwise.
REPLACES = ("epochs", "batch", "reading", "prefetch", "optimizer")
OF_METHODS = {
    "epochs": "epochs belong to a method, or to the recipe",
    "batch": "a batch belongs to a method, or to the recipe",
    "reading": "a reading belongs to a method, or to the recipe",
    "prefetch": "prefetch belongs to a method, or to the recipe",
    "optimizer": "an optimizer belongs to a method, or to the recipe",
    "recipe": "a recipe belongs to a method, or to the suite",
    "prepare_from": "prepare_from belongs to a method",
    "tuned_again": "tuned_again belongs to a method",
}

# Those that decide what a step costs, so that no method may have its own.
_OF_ALL_METHODS = ("precision", "channels_last")


class PrepareFrom(Strict):
    """The cell whose preparation a method uses. What is not given is that of each cell itself."""

    seed: int | None = Field(default=None, ge=0, description="its repetition: 0 is that of seed0")
    dataset: Label | None = Field(default=None, description="the label of its data set")

    @model_validator(mode="after")
    def _names_something(self) -> "PrepareFrom":
        if self.seed is None and self.dataset is None:
            raise ValueError("it names no cell: give seed, dataset or both")
        return self


class Entry(Strict):
    """A plug-in with options, under a label."""

    use: Label | None = Field(default=None, description="name of the module; default: the label of the entry")
    options: dict[str, object] = Field(default={}, description="its options; the others keep their defaults")
    epochs: int | None = Field(
        default=None,
        ge=1,
        le=MOST_EPOCHS,
        description="of a method: the number of its epochs, instead of the recipe's",
    )
    batch: int | None = Field(
        default=None, ge=1, description="of a method: the images of its steps, instead of the recipe's"
    )
    reading: Reading | None = Field(
        default=None, description="of a method: how its workers read images, instead of the recipe's"
    )
    prefetch: bool | None = Field(
        default=None,
        description="of a method: whether a thread prepares the next batch, instead of the recipe's",
    )
    optimizer: Optimizer | None = Field(
        default=None, description="of a method: its optimizer, instead of all of the recipe's"
    )
    recipe: Tunable | None = Field(
        default=None, description="of a method: what tuning may choose, instead of the recipe's"
    )
    partition: PartitionKind | None = Field(
        default=None, description="of a data set: how workers share it, instead of the recipe's"
    )
    prepare_from: PrepareFrom | None = Field(
        default=None, description="of a method: the cell whose preparation it uses; default: each its own"
    )
    tuned_again: Literal[True] | None = Field(
        default=None,
        description="of a method: it repeats the baseline, tuned with other seeds, which shows what tuning "
        "leaves to chance",
    )

    @model_validator(mode="before")
    @classmethod
    def _computes_as_its_baseline(cls, content: object) -> object:
        for key in _OF_ALL_METHODS:
            if isinstance(content, dict) and key in content:
                raise ValueError(
                    f"{key} belongs to the recipe: a method and its baseline compute their passes alike"
                )
        return content

    @property
    def own_values(self) -> dict[str, float]:
        """The values of its `recipe`, by key of `tunable.SECTIONS`."""
        return self.recipe.values if self.recipe else {}

    def with_drawn(self, values: dict[str, float], options: Mapping[str, object]) -> "Entry":
        """The entry with values of the recipe and options that were drawn."""
        return self.model_copy(
            update={"options": {**self.options, **options}, "recipe": tunable(self.own_values | values)}
        )


def _entry(value: object) -> object:
    """An entry without a value, such as `ssgd:`, takes all defaults."""
    return {} if value is None else value


def named(value: object) -> object:
    """In a list of names each name is its own label, and takes all defaults."""
    if not isinstance(value, list):
        return value
    if not all(isinstance(name, str) for name in value):
        raise ValueError("a list here holds names; give an entry with options a label")
    return dict.fromkeys(once(value))


def once(values: list[object]) -> list[object]:
    seen = set()
    for value in values:
        name = str(getattr(value, "label", value))
        if name in seen:
            raise ValueError(f"{name} is listed twice")
        seen.add(name)
    return values


def _labels(entries: dict[str, Entry]) -> dict[str, Entry]:
    for label in entries:
        if label != EVERY:
            check_label(label)
    return entries


Labels = Annotated[list[Label], AfterValidator(once)]
Entries = Annotated[
    dict[str, Annotated[Entry, BeforeValidator(_entry, json_schema_input_type=Entry | None)]],
    Field(min_length=1, max_length=MOST_LABELS),
    AfterValidator(_labels),
]
