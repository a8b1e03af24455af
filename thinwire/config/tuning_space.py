"""What is tuned: spaces, ranges and options, and what a place of a suite takes of the choices."""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, field_validator, model_validator

from thinwire import plugins
from thinwire.base import digests, folders
from thinwire.base.errors import UserError
from thinwire.base.options import Strict
from thinwire.config import yaml_file
from thinwire.config.entry_schema import Entry, Labels
from thinwire.config.suite_schema import Sizes
from thinwire.config.yaml_file import OneLine, Size
from thinwire.plugins import ROOT, show

_Scale = tuple[Callable[[float], float], Callable[[float], float]]  # onto the scale, and back
LOG: _Scale = (math.log, math.exp)
# Momentum m averages over 1 / (1 - m) steps: this number has the logarithmic scale.
LOG_OF_STEPS: _Scale = (lambda m: -math.log(1 - m), lambda x: 1 - math.exp(-x))
LINEAR: _Scale = (float, float)


@dataclass(frozen=True)
class Range:
    low: float
    high: float
    scale: _Scale = LOG

    def at(self, share: float) -> float:
        """The value at a share of the range from 0 to 1, with four digits; whole if both ends are."""
        onto, back = self.scale
        low, high = onto(self.low), onto(self.high)
        # Four digits of a value near an end may lie beyond it.
        value = min(max(float(f"{back(low + share * (high - low)):.4g}"), self.low), self.high)
        return round(value) if isinstance(self.low, int) and isinstance(self.high, int) else value


EVERYWHERE = "everywhere"  # the place of a choice over all data sets, models and numbers of workers
# A label ends with the number of its trial in two digits.
MOST_TRIALS = 100
SCALES = {"lr": LOG, "weight_decay": LOG, "momentum": LOG_OF_STEPS, "warmup_epochs": LINEAR}

Ends = Annotated[list[float], Field(min_length=2, max_length=2)]


class Space(Strict):
    """The keys of the recipe that are drawn, each with the two ends of its range."""

    lr: Ends | None = Field(default=None, description="on a logarithmic scale")
    weight_decay: Ends | None = Field(default=None, description="on a logarithmic scale")
    momentum: Ends | None = Field(default=None, description="on a logarithmic scale of 1 / (1 - momentum)")
    warmup_epochs: Ends | None = Field(default=None, description="on a linear scale")

    @model_validator(mode="after")
    def _has_ranges(self) -> "Space":
        if not self.ranges:
            raise ValueError(f"it names none of the keys {', '.join(SCALES)}")
        for key, range_ in self.ranges.items():
            if not range_.low < range_.high:
                raise ValueError(f"{key}: the range {[range_.low, range_.high]} does not rise")
            if range_.scale is LOG and range_.low <= 0:
                raise ValueError(f"{key}: a logarithmic range begins above 0, not at {range_.low}")
            if range_.low < 0 or (key == "momentum" and range_.high >= 1):
                limits = "from 0 to below 1" if key == "momentum" else "not negative"
                raise ValueError(f"{key}: its values are {limits}, not {[range_.low, range_.high]}")
        return self

    @property
    def ranges(self) -> dict[str, Range]:
        """The range of each key."""
        ends = {key: getattr(self, key) for key in SCALES}
        return {
            key: Range(float(low_high[0]), float(low_high[1]), SCALES[key])
            for key, low_high in ends.items()
            if low_high is not None
        }


class Tuning(Strict):
    """What is tried. docs/tuning.md explains every key."""

    title: OneLine = Field(description="one line: what is tuned")
    trials: int = Field(
        ge=2, le=MOST_TRIALS, description="for each method; the first one has the suite's own recipe"
    )
    repetitions: int = Field(ge=1, description="runs of each trial, with different seeds")
    finalists: int | None = Field(
        default=None,
        ge=1,
        description="so many of the best trials run `repetitions` times again, and one of them is chosen; "
        "default: none",
    )
    datasets: Labels = Field(min_length=1, description="labels of the suite")
    models: Labels = Field(min_length=1, description="labels of the suite")
    workers: Sizes = Field(description="as in the suite, and among those of the suite")
    space: Space = Field(description="what is drawn, alike for all methods")
    choose: Literal["each", "pooled"] = Field(
        default="each", description="for each data set, model and number of workers, or once for all of them"
    )
    evaluate_on: Literal["held_out"] = Field(
        default="held_out", description="a tenth of the training set: a tuning never sees the test set"
    )

    @field_validator("repetitions")
    @classmethod
    def _repeats(cls, repetitions: int) -> int:
        if repetitions == 1:
            raise ValueError("one run cannot tell a good trial from a lucky one: take at least 2 for each")
        return repetitions

    @model_validator(mode="after")
    def _has_finalists(self) -> "Tuning":
        if self.finalists is not None and self.finalists >= self.trials:
            raise ValueError(f"finalists: of {self.trials} trials, {self.finalists} leave none out")
        return self

    @property
    def digest(self) -> str:
        """A digest of everything but the title, and of keys that came later only where they are set."""
        fields = type(self).model_fields
        later = {key for key in ("choose", "finalists") if getattr(self, key) == fields[key].default}
        return digests.of_identity(self.model_dump(mode="json", exclude={"title"} | later))

    @property
    def places(self) -> list[str]:
        """Where something is chosen: `digits/cnn/w4`, or `everywhere`."""
        if self.choose == "pooled":
            return [EVERYWHERE]
        sizes = [size.label for size in self.workers]
        return ["/".join(place) for place in itertools.product(self.datasets, self.models, sizes)]


def path_of(suite: str) -> Path:
    """The file of the tuning of a suite; it is in the folder that has the suite."""
    return folders.home(f"config/{suite}.yaml", ROOT) / "config" / "tuning" / f"{suite}.yaml"


def read(suite: str) -> Tuning:
    """Read and validate the tuning of a suite, or a UserError; one message lists all errors of its file."""
    path = path_of(suite)
    if not path.exists():
        there = folders.below(ROOT / "config" / "tuning", ROOT)
        listed = f"has {', '.join(there)}" if there else "is empty"
        raise UserError(
            f"there is no tuning of suite {suite!r}: config/tuning/ {listed}; docs/tuning.md says how to "
            "write one"
        )
    return yaml_file.read(path, Tuning, "a tuning", "docs/tuning.md")


# With more of them a method would have more to gain from the same number of trials.
MOST_OPTIONS = 2


def tunes(label: str, entry: Entry) -> dict[str, list[float]]:
    """The ends of the range of each option in `Method.tunes`. An option that the entry sets is not drawn.

    A UserError says that the attribute is not as `thinwire.Method.tunes` explains.
    """
    plugin = plugins.get("method", entry.use or label)
    named = plugin.literal("tunes") or {}
    if not (len(named) <= MOST_OPTIONS and all(map(_valid, named.items()))):
        raise UserError(
            f"{show(plugin.path)}: tunes names at most {MOST_OPTIONS} options, each with the "
            'two ends of its range, which are positive and rise: {"clip": (0.1, 10.0)}'
        )
    return {name: list(ends) for name, ends in named.items() if name not in entry.options}


def ranges(drawn: dict[str, list[float]]) -> dict[str, Range]:
    """The ranges of these options, on a logarithmic scale."""
    return {name: Range(low, high) for name, (low, high) in drawn.items()}


def _valid(item: tuple[object, object]) -> bool:
    name, ends = item
    if not (isinstance(name, str) and isinstance(ends, tuple | list) and len(ends) == 2):
        return False
    return all(type(end) in (int, float) for end in ends) and 0 < ends[0] < ends[1] < float("inf")


class Drawn(NamedTuple):
    """Of a method in one place."""

    values: dict[str, float]  # of the recipe
    options: dict[str, object]
    ended: bool = True  # has a trial of the method ended there?


def drawn_at(tuning: Tuning, chosen: Mapping[str, Drawn], dataset: str, model: str, size: Size) -> Drawn:
    """What one method takes in one place of a suite, from what was `chosen` by place.

    A data set or model that was not tuned takes what the first one takes. Between two tuned numbers of
    workers, each value of the recipe is interpolated on the scale from which it was drawn, linearly in the
    logarithm of the workers; options are those of the nearer. Beyond them, all is as with the nearest.
    Numbers with which no trial has ended count only for themselves.
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
    below, above = neighbours(count or tuning.workers, size)
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


def neighbours(tuned: Sequence[Size], size: Size) -> tuple[Size, Size]:
    """The tuned sizes below and above this one; twice the same if it was tuned or lies beyond all."""
    if same := [each for each in tuned if each.label == size.label]:
        return same[0], same[0]
    sizes = sorted(tuned, key=lambda each: each.workers)
    below = [each for each in sizes if each.workers <= size.workers]
    above = [each for each in sizes if each.workers >= size.workers]
    return (below or above[:1])[-1], (above or below[-1:])[0]
