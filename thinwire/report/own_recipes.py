"""In which keys the recipe of a method differs from that of its suite."""

from collections.abc import Mapping

from thinwire.config.suite_methods import entries_of
from thinwire.config.suite_schema import Suite
from thinwire.optim.recipe import BELONGS, Recipe
from thinwire.optim.tunable import SECTIONS, values_of


def own_recipes(suite: Suite) -> dict[str, str]:
    """For each such method what differs: `batch 512, lars, lr 0.02, momentum 0.95`."""
    every = _parts(suite.recipe)
    found = {}
    for label in entries_of(suite):
        own = _parts(suite.recipe_of(label))
        if other := [part for key, part in own.items() if part != every.get(key)]:
            found[label] = ", ".join(other)
    return found


def note(suite: Suite) -> str:
    """Explains these differences, and where they come from; empty if there are none."""
    own = own_recipes(suite)
    if suite.tuned is None and not own:
        return ""
    every = _parts(suite.recipe)
    others = [_parts(suite.recipe_of(label)) for label in own]
    always = values_of(suite.recipe)
    common = ", ".join(part for key, part in every.items() if key in always or _differs(key, every, others))
    origin = "The suite sets these values."
    if suite.tuned is not None:
        origin = (
            f"These values were chosen on held-out images (config/tuned/{suite.tuned}.yaml), with as many "
            "trials for each method."
        )
        # A suite names every method that was tuned. The others are those that only its `'*'` has found.
        if untuned := [label for label in entries_of(suite) if label not in suite.methods]:
            origin += f" Not tuned, with the recipe of the suite: {', '.join(untuned)}."
    which = "where it differs from that of the suite" if own else "of all methods that of the suite"
    return f"Recipe: {which} ({common}). {origin}"


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


def _differs(key: str, every: Mapping[str, str], others: list[dict[str, str]]) -> bool:
    return any(other.get(key) != every[key] for other in others)
