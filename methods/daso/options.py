"""The options."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from thinwire.codecs import precision


@dataclass
class Options:
    warmup_epochs: Annotated[int, Field(ge=0)] = 4  # blocking epochs at the beginning
    cooldown_epochs: Annotated[int, Field(ge=0)] = 4  # blocking epochs at the end
    max_skips: Annotated[int, Field(ge=1, le=16)] = 8  # most steps between two exchanges of the nodes
    plateau_threshold: Annotated[float, Field(ge=0, lt=1)] = 0.05  # relative fall that is a better loss
    patience: Annotated[int, Field(ge=0)] = 2  # epochs without one, beyond which it is a plateau
    fixed_skips: Annotated[int, Field(ge=1)] | None = None  # B of all epochs between, whatever the loss is
    fixed_wait: Annotated[int, Field(ge=0)] | None = None  # S with that B; 0: every exchange blocks
    match_progress: bool = False  # is the rate raised by what merges take of the progress?
    blocking_dtype: precision.Precision = "bfloat16"  # of warm-up and cool-down
    blocking_sends: Literal["delta", "weights"] = "delta"  # what is cast to it
    control: Literal["corrected", "published"] = "corrected"  # the accidents of the authors' code

    def __post_init__(self) -> None:
        skips, wait = self.fixed_skips, self.fixed_wait
        if (skips is None) != (wait is None):
            raise ValueError("fixed_skips and fixed_wait belong together: give both or neither")
        if skips is not None and wait is not None and wait > skips:
            raise ValueError(
                f"fixed_wait {wait} is above fixed_skips {skips}: "
                "a message must merge before the next one is sent"
            )
        if self.match_progress and self.control == "published":
            raise ValueError("match_progress needs control: corrected, whose merges are on time")
