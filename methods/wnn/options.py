"""The options."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field


@dataclass
class Options:
    forecast: bool = True  # false: values are recorded, but nothing is forecast
    interval_epochs: Annotated[float, Field(gt=0)] = 1.0  # epochs between two values of a history
    # published: the last value of a bias is not normalised, which is an error in the authors' code
    bias_rule: Literal["normalised", "published"] = "normalised"
    recorded_epochs: Annotated[int, Field(ge=1)] = 100  # epochs of each run that forecasters learn from
    recorded_batch: Annotated[int, Field(ge=1)] = 128  # images in a step of these runs, on one worker
    windows: Annotated[int, Field(ge=100)] = 200_000  # histories that a forecaster learns from, of each run
    forecaster_steps: Annotated[int, Field(ge=1)] = 10_000  # steps of each forecaster's training
