"""The options, the first interval, and the runs in which they leave no round."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field


@dataclass
class Options:
    warmup_steps: Annotated[int, Field(ge=0)] = 500  # SSGD for so many steps
    interval: Annotated[int, Field(ge=1)] = 4  # steps of a round, to begin with
    min_interval: Annotated[int, Field(ge=1)] = 1  # fewest steps of a round
    max_interval: Annotated[int, Field(ge=1)] = 16  # most steps of a round
    adapt_every_epochs: Annotated[int, Field(ge=1)] = 1  # epochs between two looks at the loss
    lr_term: bool = True  # does a falling learning rate lengthen the rounds?
    shrink: Annotated[float, Field(gt=0, lt=1)] | None = None  # factor where the loss does not fall
    in_round: Annotated[float, Field(ge=0, le=1)] = 0.2  # beta: share of the last global gradient
    at_sync: Annotated[float, Field(ge=0, le=1)] = 1.0  # lambda: how far x goes to z; 1 is all the way
    local_momentum: bool = False  # do the local steps have the momentum, instead of the global one?
    delay: Literal[0, 1] = 0  # rounds between sending and landing
    slice: Annotated[int, Field(ge=1)] = 1_000_000  # most entries of a sub-tensor
    credit: Annotated[int, Field(ge=1)] = 4_000_000  # most entries on their way at once
    release: Literal["worker", "background"] = "worker"  # who waits for credit: the worker, or the transport
    order: Literal["priority", "fifo"] = "priority"  # of sub-tensors: input side first, or output side first

    def __post_init__(self) -> None:
        if self.min_interval > self.max_interval:
            raise ValueError(f"min_interval {self.min_interval} is above max_interval {self.max_interval}")


def first_interval(options: Options) -> int:
    """Steps of the first round after the warm-up."""
    return within_limits(options.interval, options)


def within_limits(interval: int, options: Options) -> int:
    """The nearest number of steps that a round may have."""
    return min(max(interval, options.min_interval), options.max_interval)


def why_not(options: Options, total_steps: int) -> str | None:
    """Why a run of so many steps cannot be with these options, in one clause, or None."""
    warmup, interval = options.warmup_steps, first_interval(options)
    if warmup >= total_steps:
        return f"its warm-up of {warmup} steps is as long as the run of {total_steps}"
    left = total_steps - warmup
    if interval > left:
        return f"its rounds of {interval} steps are longer than the {left} after the warm-up"
    return None
