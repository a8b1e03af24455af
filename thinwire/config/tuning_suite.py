"""The trials of a tuning, as a suite of their own: each method of the tuned suite, once for every trial."""

from collections.abc import Collection

from pydantic import ValidationError

from thinwire import seeds
from thinwire.config.suite_methods import entries_of
from thinwire.config.suite_schema import EVERY, Entry, Suite
from thinwire.config.trial_values import entries_of_trials, points
from thinwire.config.tuned_options import MOST_OPTIONS
from thinwire.config.tuning_space import Tuning, path_of
from thinwire.errors import Problems
from thinwire.label import nearest
from thinwire.optim.tunable import values_of
from thinwire.options import problems
from thinwire.plugins import show

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
    drawn = points(suite.seed, tuning.trials - 1, len(tuning.space.ranges) + MOST_OPTIONS)
    methods = {
        trial_label(label, trial): made
        for label, entry in entries.items()
        for trial, made in enumerate(entries_of_trials(label, entry, tuning, drawn))
    }
    if EVERY in suite.methods:
        methods[EVERY] = Entry()  # so that `leave_out` is checked as ever; no module is left for it
    kept = suite.model_dump(
        exclude_unset=True, exclude={"tuned", "transport", "backend", "cluster", "simulate", "claim"}
    )
    content = kept | {
        "title": tuning.title,
        "seed": seeds.derive(suite.seed, "tuning"),
        "repetitions": tuning.repetitions,
        "datasets": {label: suite.datasets[label] for label in tuning.datasets},
        "models": {label: suite.models[label] for label in tuning.models},
        "methods": methods,
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
