"""Does every method train in deterministic mode? An operation without a deterministic kernel raises."""

import torch

from gpu_parts import small_run
from gpu_parts.part import Found, Place


def part(place: Place, found: Found) -> None:
    """Train each method for a short run, in the type that runs have."""

    def steps(name: str) -> int:
        run = small_run.trainer(small_run.task(place.device, dtype=torch.float32, method=name), name)
        run.train()
        place.wait()
        return run.step

    small_run.of_each_method(place, found, steps)
