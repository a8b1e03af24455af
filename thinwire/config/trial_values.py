"""What the trials of a tuning try: quasi-random points, which cover ranges better than random ones do."""

from collections.abc import Iterable

from thinwire import seeds
from thinwire.config.suite_schema import Entry
from thinwire.config.tuned_options import ranges, tunes
from thinwire.config.tuning_space import Tuning
from thinwire.optim.tunable import tunable


def points(seed: int, number: int, dimensions: int) -> list[list[float]]:
    """Points of a scrambled Halton sequence in the unit cube. More of them begin with the same ones.

    Args:
        seed: of the suite.
        number: of points.
        dimensions: of the cube.
    """
    # Imported only when it is needed, because this takes about a second.
    from scipy.stats import qmc

    sequence = qmc.Halton(dimensions, scramble=True, rng=seeds.derive(seed, "tuning", "draws"))
    drawn: list[list[float]] = sequence.random(number).tolist()
    return drawn


def entries_of_trials(label: str, entry: Entry, tuning: Tuning, drawn: list[list[float]]) -> Iterable[Entry]:
    """The entry of a method for each trial; the first trial tries what the suite has."""
    keys, options = tuning.space.ranges, ranges(tunes(label, entry))
    use = entry.use or label
    yield entry.model_copy(update={"use": use})
    own = entry.recipe.values if entry.recipe else {}
    for point in drawn:
        values = {key: range_.at(share) for (key, range_), share in zip(keys.items(), point)}
        of_options = {o: range_.at(s) for (o, range_), s in zip(options.items(), point[len(keys) :])}
        yield entry.model_copy(
            update={"use": use, "options": entry.options | of_options, "recipe": tunable(own | values)}
        )
