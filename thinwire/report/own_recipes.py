"""In which keys the recipe of a method differs from that of its suite."""

from thinwire.config.suite_methods import entries_of
from thinwire.config.suite_schema import Suite
from thinwire.optim.tunable import values_of


def own_recipes(suite: Suite) -> dict[str, str]:
    """For each such method what differs: `lr 0.02, momentum 0.95`."""
    every = values_of(suite.recipe)
    found = {}
    for label in entries_of(suite):
        own = values_of(suite.recipe_of(label))
        other = [f"{key} {value:g}" for key, value in own.items() if value != every[key]]
        if (reading := suite.recipe_of(label).reading) != suite.recipe.reading:
            other.append(f"{reading} reading")
        if other:
            found[label] = ", ".join(other)
    return found


def note(suite: Suite) -> str:
    """Explains these differences, and where they come from; empty if there are none."""
    own = own_recipes(suite)
    if suite.tuned is None and not own:
        return ""
    common = ", ".join(f"{key} {value:g}" for key, value in values_of(suite.recipe).items())
    if any(suite.recipe_of(label).reading != suite.recipe.reading for label in own):
        common += f", {suite.recipe.reading} reading"
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
