"""The options."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from thinwire.codecs.sparse import Encoding

Density = Annotated[float, Field(gt=0, le=1)]


@dataclass
class Options:
    density: Density = 0.001  # share of each compressed tensor's entries that is sent after the warm-up
    warmup_densities: tuple[Density, ...] = (0.25, 0.0625, 0.015625, 0.004)  # one for each first epoch
    masking: bool = True  # whether the momentum of an entry starts again from zero when it is sent
    # Greatest norm of the mean of the workers' gradients, if the gradients are independent.
    clip_norm: Annotated[float, Field(gt=0)] | None = None
    selection: Literal["sampled", "exact"] = "sampled"  # how the largest entries are found
    indices: Encoding = "run_length"  # how positions are encoded: int32, bitmap or run_length

    def __post_init__(self) -> None:
        densities = [*self.warmup_densities, self.density]
        if densities != sorted(densities, reverse=True):
            raise ValueError(f"warmup_densities and then density must not rise, as {densities} do")
