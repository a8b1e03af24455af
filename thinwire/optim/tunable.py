"""The keys of a recipe that tuning may choose. A method may have its own values of them, and of no others."""

from collections.abc import Mapping

from pydantic import Field

from thinwire.base.options import Strict
from thinwire.optim.recipe import BELONGS, Recipe

# The section of the recipe in which each key is.
SECTIONS = {
    "lr": "optimizer",
    "weight_decay": "optimizer",
    "momentum": "optimizer",
    "warmup_epochs": "schedule",
}


class TunableOptimizer(Strict):
    """Of the recipe's optimizer."""

    lr: float | None = Field(default=None, gt=0)
    weight_decay: float | None = Field(default=None, ge=0)
    momentum: float | None = Field(default=None, ge=0, lt=1)


class TunableSchedule(Strict):
    """Of the recipe's schedule."""

    warmup_epochs: float | None = Field(default=None, ge=0)


class Tunable(Strict):
    """Some of these keys. Those that are not set have the values of the suite's recipe."""

    optimizer: TunableOptimizer = TunableOptimizer()
    schedule: TunableSchedule = TunableSchedule()

    @property
    def values(self) -> dict[str, float]:
        """The values that are set, by key."""
        sections = self.model_dump(exclude_none=True)
        return {key: sections[at][key] for key, at in SECTIONS.items() if key in sections[at]}


def tunable(values: Mapping[str, float]) -> Tunable:
    """The keys with these values, and no others; a `ValidationError` if one is out of its range."""
    sections: dict[str, dict[str, float]] = {}
    for key, value in values.items():
        sections.setdefault(SECTIONS[key], {})[key] = value
    return Tunable.model_validate(sections)


def values_of(recipe: Recipe) -> dict[str, float]:
    """The values of a recipe, by key; a key that its optimizer does not have is left out."""
    every = {key: getattr(getattr(recipe, section), key) for key, section in SECTIONS.items()}
    name = recipe.optimizer.name
    return {key: value for key, value in every.items() if name in BELONGS.get(key, (name,))}


def changed(recipe: Recipe, changes: Mapping[str, object]) -> Recipe:
    """A recipe with other values; of a section, only the keys that are given are changed.

    Raises:
        ValidationError: the values do not fit the others of the recipe, such as a momentum for Adam.
    """
    content = recipe.model_dump(exclude_unset=True)
    for key, value in changes.items():
        content[key] = {**content.get(key, {}), **value} if isinstance(value, Mapping) else value
    return Recipe.model_validate(content)
