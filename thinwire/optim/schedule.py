"""Schedules of the learning rate; `plateau` follows the training loss."""

import math
from typing import Annotated, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from thinwire.base.options import Strict

# Options that only some of the schedules have.
BELONGS_TO_SCHEDULE = {
    "factor": ("step", "exponential", "plateau"),
    "power": ("polynomial",),
    "patience": ("plateau",),
    "threshold": ("plateau",),
}
# Options that came later. Recipes of other schedules keep the digest that they had before.
_OF_PLATEAU_ONLY = ("patience", "threshold")


class Schedule(Strict):
    """The learning rate over the run, as a factor of the optimizer's `lr`."""

    name: Literal["constant", "cosine", "step", "polynomial", "exponential", "plateau"] = Field(
        default="cosine", description="the shape after the warm-up"
    )
    warmup_epochs: float = Field(default=0.0, ge=0, description="epochs of linear warm-up, step by step")
    milestones: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        default=(), strict=False, description="step: epochs at whose beginning the rate drops"
    )
    factor: float = Field(
        default=0.1,
        gt=0,
        lt=1,
        description="step: factor at each milestone; exponential: factor after each epoch; plateau: factor "
        "whenever the training loss has stopped falling",
    )
    power: float = Field(
        default=2.0, gt=0, description="polynomial: power of the share of the run that is left"
    )
    patience: int = Field(
        default=10, ge=0, description="plateau: epochs without a new lowest loss that do not lower the rate"
    )
    threshold: float = Field(
        default=1e-4, ge=0, lt=1, description="plateau: share by which a loss must be below the lowest one"
    )

    @model_validator(mode="after")
    def _milestones_belong_to_step(self) -> "Schedule":
        if bool(self.milestones) != (self.name == "step"):
            raise ValueError("milestones belong to the schedule named step, which needs them")
        for option, names in BELONGS_TO_SCHEDULE.items():
            if option in self.model_fields_set and self.name not in names:
                raise ValueError(f"{option} belongs to {' and '.join(names)}, not to {self.name}")
        if self.name == "exponential" and "factor" not in self.model_fields_set:
            raise ValueError("the schedule named exponential needs a factor: what each epoch leaves")
        if list(self.milestones) != sorted(set(self.milestones)):
            raise ValueError("milestones must rise")
        return self

    def rate(self, peak: float, step: int, epochs: int, steps_per_epoch: int) -> float:
        """The learning rate of a step (counted from 0) of a run; `peak` is that after the warm-up."""
        warmup = round(self.warmup_epochs * steps_per_epoch)
        if step < warmup:
            return peak * (step + 1) / warmup
        done = (step - warmup) / max(1, epochs * steps_per_epoch - warmup)
        if self.name == "cosine":
            return peak * (1 + math.cos(math.pi * done)) / 2
        if self.name == "polynomial":
            return peak * (1 - done) ** self.power
        if self.name == "exponential":
            return peak * self.factor ** (step // steps_per_epoch)
        if self.name == "step":
            drops = sum(step >= milestone * steps_per_epoch for milestone in self.milestones)
            return peak * self.factor**drops
        return peak

    @model_serializer(mode="wrap")
    def _without_options_of_plateau(self, dump: SerializerFunctionWrapHandler) -> dict[str, object]:
        left_out = () if self.name == "plateau" else _OF_PLATEAU_ONLY
        return {key: value for key, value in dump(self).items() if key not in left_out}


class Plateau:
    """What is left of the learning rate, which falls whenever the training loss has stopped falling.

    Source: `torch.optim.lr_scheduler.ReduceLROnPlateau` (mode min, threshold mode rel, no cooldown, no lowest
    rate). This has the same rule without an optimizer, so that its state is three numbers.
    """

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._lowest = math.inf
        self._epochs_since_lowest = 0
        self.scale = 1.0
        """The factor of the rate, from 1 down."""

    def end_epoch(self, loss: float) -> None:
        """Take in the mean loss of an epoch."""
        self._epochs_since_lowest += 1
        if loss < self._lowest * (1 - self._schedule.threshold):
            self._lowest, self._epochs_since_lowest = loss, 0
        if self._epochs_since_lowest > self._schedule.patience:
            self.scale *= self._schedule.factor
            self._epochs_since_lowest = 0

    def state(self) -> list[float]:
        """Everything that it needs to resume."""
        return [self._lowest, self._epochs_since_lowest, self.scale]

    def load(self, state: list[float]) -> None:
        """Restore a saved state."""
        lowest, since, scale = state
        self._lowest, self._epochs_since_lowest, self.scale = lowest, int(since), scale
