"""What choices for some data sets, models and numbers of workers give to a suite, which may have others."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from thinwire.config.suite_schema import Suite
from thinwire.config.tuning_space import EVERYWHERE, SCALES, Tuning
from thinwire.config.yaml_file import Size


class Drawn(NamedTuple):
    """Of a method in one place."""

    values: dict[str, float]  # of the recipe
    options: dict[str, Any]
    ended: bool = True  # has a trial of the method ended there?


def problems(suite: Suite, tuning: Tuning) -> Iterator[str]:
    """A clause for data sets and models without a choice. A single one that was tuned stands for all."""
    for kind, chosen, there in (
        ("data sets", tuning.datasets, suite.datasets),
        ("models", tuning.models, suite.models),
    ):
        missing = [label for label in there if label not in chosen]
        if missing and len(chosen) > 1 and tuning.choose == "each":
            yield f"has choices for the {kind} {', '.join(chosen)}, and none for {', '.join(missing)}"


def drawn_at(tuning: Tuning, chosen: Mapping[str, Drawn], dataset: str, model: str, size: Size) -> Drawn:
    """What one method takes in one place of a suite.

    Between two tuned numbers of workers, each value of the recipe is interpolated on the scale from which it
    was drawn, linearly in the logarithm of the workers; options are those of the nearer. Beyond them, all is
    as with the nearest. Numbers with which no trial has ended count only for themselves.

    Args:
        tuning: made the choices.
        chosen: by place.
        dataset: label; of a tuning with one data set, any; as `model`.
        model: label.
        size: workers, and nodes.
    """
    if EVERYWHERE in chosen:
        return chosen[EVERYWHERE]
    dataset = dataset if dataset in tuning.datasets else tuning.datasets[0]
    model = model if model in tuning.models else tuning.models[0]
    count = [
        each
        for each in tuning.workers
        if each.label == size.label or chosen[f"{dataset}/{model}/{each.label}"].ended
    ]
    below, above = _neighbours(count or tuning.workers, size)
    low, high = (chosen[f"{dataset}/{model}/{each.label}"] for each in (below, above))
    if below.workers == above.workers:
        return low
    share = math.log(size.workers / below.workers) / math.log(above.workers / below.workers)
    values = {}
    for key, value in low.values.items():
        onto, back = SCALES[key]
        value = back((1 - share) * onto(value) + share * onto(high.values[key]))
        values[key] = float(f"{value:.4g}")
    return Drawn(values, low.options if share <= 0.5 else high.options)


def _neighbours(tuned: Sequence[Size], size: Size) -> tuple[Size, Size]:
    """The tuned sizes below and above this one; twice the same if it was tuned or lies beyond all."""
    if same := [each for each in tuned if each.label == size.label]:
        return same[0], same[0]
    sizes = sorted(tuned, key=lambda each: each.workers)
    below = [each for each in sizes if each.workers <= size.workers]
    above = [each for each in sizes if each.workers >= size.workers]
    return (below or above[:1])[-1], (above or below[-1:])[0]


def note(suite: Suite, tuning: Tuning) -> str:
    """Says of numbers of workers that were not tuned where their values come from; empty if one was tuned."""
    if len(tuning.workers) == 1 or tuning.choose == "pooled":
        return ""
    said = ""
    for size in suite.workers:
        below, above = _neighbours(tuning.workers, size)
        if below != above:
            said += f" {size.label} lies between {below.label} and {above.label}, on a logarithmic scale."
        elif below != size:
            said += f" {size.label} has the values of {below.label}, the nearest that was tuned."
    return said
