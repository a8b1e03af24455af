"""The trials of a tuning, as a suite."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from thinwire.base import digests, seeds
from thinwire.base.errors import Problems, UserError, nearest
from thinwire.config import yaml_file
from thinwire.config.cell import Cell
from thinwire.config.entries import entries_of, heirs, tuned_again
from thinwire.config.entry_schema import EVERY, Entry
from thinwire.config.suite_schema import Suite
from thinwire.config.tuning_space import MOST_OPTIONS, Tuning, path_of, ranges, tunes
from thinwire.optim.recipe import Recipe
from thinwire.optim.tunable import values_of
from thinwire.plugins import show


def points(seed: int, number: int, dimensions: int) -> list[list[float]]:
    """So many points of a scrambled Halton sequence in the unit cube; more begin with the same ones."""
    from scipy.stats import qmc  # only here, because it takes about a second

    sequence = qmc.Halton(dimensions, scramble=True, rng=seeds.derive(seed, "tuning", "draws"))
    drawn: list[list[float]] = sequence.random(number).tolist()
    return drawn


def entries_of_trials(label: str, entry: Entry, tuning: Tuning, drawn: list[list[float]]) -> Iterable[Entry]:
    """The entry of a method for each trial; the first trial tries what the suite has."""
    keys, options = tuning.space.ranges, ranges(tunes(label, entry))
    use = entry.use or label
    entry = entry.model_copy(update={"use": use, "tuned_again": None})
    yield entry
    for point in drawn:
        values = {key: range_.at(share) for (key, range_), share in zip(keys.items(), point)}
        of_options = {o: range_.at(s) for (o, range_), s in zip(options.items(), point[len(keys) :])}
        yield entry.with_drawn(values, of_options)


# The suite of the trials of the suite NAME is `tuning/NAME`.
PREFIX = "tuning/"
_AGAIN, _FINALS = "/again", "/finals"
# With such an ending, the suite of the trials of one suite would be that of another's second stage.
NO_ENDINGS = (_AGAIN, _FINALS)


@dataclass(frozen=True)
class Stage:
    """What the runs of a suite of trials are for; its name says it, as `tuning/laptop/finals`."""

    of: str  # the suite that is tuned
    again: bool = False  # are they of methods that are tuned again, with other seeds?
    finals: bool = False  # are they the further runs of the best trials?

    @property
    def name(self) -> str:
        return PREFIX + self.of + _AGAIN * self.again + _FINALS * self.finals

    @classmethod
    def named(cls, name: str) -> "Stage":
        of = name.removeprefix(PREFIX)
        trials = of.removesuffix(_FINALS)
        return cls(trials.removesuffix(_AGAIN), trials.endswith(_AGAIN), of.endswith(_FINALS))


def stages_of(name: str, suite: Suite, tuning: Tuning) -> list[Stage]:
    """The stages of the tuning of a suite, those of finals last."""
    finals = (False,) if tuning.finalists is None else (False, True)
    again = (False,) if tuned_again(suite) is None else (False, True)
    return [Stage(name, other, last) for last in finals for other in again]


def is_finals(suite: str) -> bool:
    """Has a suite the further runs of the best trials? It has cells for all, until these are known."""
    return suite.startswith(PREFIX) and Stage.named(suite).finals


def finalists_path(results: Path, suite: str) -> Path:
    return results / "finalists" / f"{suite}.json"


def only_finalists(cells: Sequence[Cell], results: Path) -> list[Cell]:
    """These cells without those of finals whose trials are none of the best, or a UserError."""
    best: dict[str, Mapping[str, Collection[str]]] = {}
    for suite in {cell.suite for cell in cells if is_finals(cell.suite)}:
        path = finalists_path(results, Stage.named(suite).of)
        if not path.exists():
            raise UserError(
                f"{suite}: the best trials are not known before all have ended; `thinwire tuned "
                f"{Stage.named(suite).of}` says what is missing"
            )
        try:
            best[suite] = digests.read_json(path)
        except digests.Damaged as error:
            again = f"`thinwire tuned {Stage.named(suite).of}` writes it again"
            raise UserError(f"{error}: {again}") from None
        if missing := next((c.place for c in cells if c.suite == suite and c.place not in best[suite]), None):
            raise UserError(
                f"{suite}: the best trials were chosen when its tuning had no {missing}; `thinwire tuned "
                f"{Stage.named(suite).of}` says what is missing"
            )
    return [c for c in cells if c.suite not in best or c.method.label in best[c.suite][c.place]]


def trial_label(method: str, trial: int) -> str:
    return f"{method}-t{trial:02d}"


def of_trial_label(label: str) -> tuple[str, int]:
    method, _, trial = label.rpartition("-t")
    return method, int(trial)


def suite_of_trials(stage: Stage, suite: Suite, tuning: Tuning) -> Suite:
    """The suite of the trials of a suite.

    The first trial of each method has the suite's own recipe. The others draw what the tuning declares, at
    the same points for all methods. Seeds are derived from another seed than the suite's, so that no number
    of repetitions makes the two share a run; those of the finals, too. A UserError lists what does not fit.
    """
    entries = {
        label: entry for label, entry in entries_of(suite).items() if bool(entry.tuned_again) == stage.again
    }
    if found := _problems(suite, tuning, entries):
        raise Problems(show(path_of(stage.of)), found)
    inheriting = heirs(entries)
    seed = seeds.derive(suite.seed, "tuning", "again") if stage.again else suite.seed
    drawn = points(seed, tuning.trials - 1, len(tuning.space.ranges) + MOST_OPTIONS)
    methods = {
        trial_label(label, trial): made
        for label, entry in entries.items()
        if label not in inheriting
        for trial, made in enumerate(entries_of_trials(label, entry, tuning, drawn))
    }
    left_out = suite.leave_out
    if EVERY in suite.methods and stage.again:
        left_out = []
    elif EVERY in suite.methods:
        methods[EVERY] = Entry()  # so that `leave_out` is checked as ever; no module is left for it
        left_out = [*suite.leave_out, *(entries[label].use or label for label in inheriting)]
    of_times = {"transport", "backend", "nccl", "cluster", "simulate", "without_data", "ladder", "track"}
    kept = suite.model_dump(exclude_unset=True, exclude={"tuned", "claim", *of_times})
    content = kept | {
        "title": tuning.title,
        "seed": seeds.derive(seed, "tuning", *(["finals"] if stage.finals else [])),
        "repetitions": tuning.repetitions,
        "datasets": {label: suite.datasets[label] for label in tuning.datasets},
        "models": {label: suite.models[label] for label in tuning.models},
        "methods": methods,
        "leave_out": list(dict.fromkeys(left_out)),
        "workers": tuning.workers,
        "baseline": trial_label(next(iter(entries)), 0),
        "evaluate_on": tuning.evaluate_on,
    }
    return yaml_file.validated(Suite, content, path_of(stage.of))


def _problems(suite: Suite, tuning: Tuning, entries: dict[str, Entry]) -> list[str]:
    found = []
    known: tuple[tuple[str, list[str], Collection[str]], ...] = (
        ("datasets", tuning.datasets, suite.datasets),
        ("models", tuning.models, suite.models),
        ("workers", [size.label for size in tuning.workers], [size.label for size in suite.workers]),
    )
    for key, wanted, there in known:
        found += [
            f"{key}: the suite has no {label}; the nearest is {nearest(label, there)}"
            for label in wanted
            if label not in there
        ]
    found += _outside("the suite", suite.recipe, tuning)
    for label, entry in entries.items():
        if fixed := [key for key in tuning.space.ranges if key in entry.own_values]:
            found.append(
                f"space.{fixed[0]}: the suite sets it for {label}: remove it there, because it is drawn "
                "alike for all methods"
            )
        elif entry.optimizer is not None:
            found += _outside(label, suite.recipe_of(label), tuning)
    return found


def _outside(whose: str, recipe: Recipe, tuning: Tuning) -> Iterable[str]:
    """What the first trial, which has the values of this recipe, has no place for in the space."""
    own = values_of(recipe)
    for key, range_ in tuning.space.ranges.items():
        if key not in own:
            yield f"space.{key}: {whose}'s optimizer {recipe.optimizer.name} has none"
        elif not range_.low <= own[key] <= range_.high:
            yield (
                f"space.{key}: {whose}'s own value {own[key]:g} is outside {range_.low:g} to "
                f"{range_.high:g}: widen the range, because the first trial has that value"
            )
