"""The trials of a tuning, as a suite."""

from collections.abc import Collection, Iterable

from pydantic import ValidationError

from thinwire.base import seeds
from thinwire.base.errors import Problems
from thinwire.base.names import nearest
from thinwire.base.options import problems
from thinwire.config.entries import entries_of, heirs
from thinwire.config.entry_schema import EVERY, Entry
from thinwire.config.suite_schema import Suite
from thinwire.config.tuning_space import MOST_OPTIONS, Tuning, path_of, ranges, tunes
from thinwire.optim.tunable import tunable, values_of
from thinwire.plugins import show


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


# The suite of the trials of the suite NAME is `tuning/NAME`.
PREFIX = "tuning/"


def trial_label(method: str, trial: int) -> str:
    """The label of a trial."""
    return f"{method}-t{trial:02d}"


def of_trial_label(label: str) -> tuple[str, int]:
    """The method and the trial of a label."""
    method, _, trial = label.rpartition("-t")
    return method, int(trial)


def suite_of_trials(name: str, suite: Suite, tuning: Tuning) -> Suite:
    """The suite of the trials of a suite.

    The first trial of each method has the suite's own recipe. The others draw what the tuning declares, at
    the same points for all methods. Seeds are derived from another seed than the suite's, so that no number
    of repetitions makes the two share a run.

    Raises:
        UserError: the tuning does not fit the suite; one message lists why.
    """
    entries = entries_of(suite)
    if found := _problems(suite, tuning, entries):
        raise Problems(show(path_of(name)), found)
    inheriting = heirs(entries)
    drawn = points(suite.seed, tuning.trials - 1, len(tuning.space.ranges) + MOST_OPTIONS)
    methods = {
        trial_label(label, trial): made
        for label, entry in entries.items()
        if label not in inheriting
        for trial, made in enumerate(entries_of_trials(label, entry, tuning, drawn))
    }
    left_out = suite.leave_out
    if EVERY in suite.methods:
        methods[EVERY] = Entry()  # so that `leave_out` is checked as ever; no module is left for it
        left_out = [*suite.leave_out, *(entries[label].use or label for label in inheriting)]
    no_trials = {"tuned", "transport", "backend", "nccl", "cluster", "simulate", "track", "claim"}
    kept = suite.model_dump(exclude_unset=True, exclude=no_trials)
    content = kept | {
        "title": tuning.title,
        "seed": seeds.derive(suite.seed, "tuning"),
        "repetitions": tuning.repetitions,
        "datasets": {label: suite.datasets[label] for label in tuning.datasets},
        "models": {label: suite.models[label] for label in tuning.models},
        "methods": methods,
        "leave_out": list(dict.fromkeys(left_out)),
        "workers": tuning.workers,
        "baseline": trial_label(suite.baseline, 0),
        "evaluate_on": tuning.evaluate_on,
    }
    try:
        return Suite.model_validate(content)
    except ValidationError as error:
        raise Problems(show(path_of(name)), problems(error)) from None


def _problems(suite: Suite, tuning: Tuning, entries: dict[str, Entry]) -> list[str]:
    """Why a tuning does not fit its suite."""
    found = []
    sizes = [size.label for size in suite.workers]
    for key, wanted, there in (
        ("datasets", tuning.datasets, suite.datasets),
        ("models", tuning.models, suite.models),
        ("workers", [size.label for size in tuning.workers], sizes),
    ):
        found += [_unknown(key, label, there) for label in wanted if label not in there]
    own = values_of(suite.recipe)
    for key, range_ in tuning.space.ranges.items():
        if key not in own:
            found.append(f"space.{key}: the suite's optimizer {suite.recipe.optimizer.name} has none")
        elif not range_.low <= own[key] <= range_.high:
            found.append(
                f"space.{key}: the suite's own value {own[key]:g} is outside {range_.low:g} to "
                f"{range_.high:g}: widen the range, because the first trial has that value"
            )
    for label, entry in entries.items():
        fixed = [key for key in tuning.space.ranges if entry.sets(key)]
        if fixed:
            found.append(
                f"space.{fixed[0]}: the suite sets it for {label}: remove it there, because it is drawn "
                "alike for all methods"
            )
    return found


def _unknown(key: str, label: str, there: Collection[str]) -> str:
    return f"{key}: the suite has no {label}; the nearest is {nearest(label, there)}"
