"""How much longer a step of the engine takes than one of a hand-written loop, with 8 workers."""

import math
from statistics import median
from typing import NamedTuple

import engine
import torch

from gpu_parts import small_run
from gpu_parts.part import Found, Place
from thinwire.base.placement import Cluster

MOST = 1.02
WORKERS, WARM_UP_BLOCKS = 8, 2


class Sizes(NamedTuple):
    """How much is timed."""

    images: int
    batch: int  # of all workers
    blocks: int  # that are timed
    steps: int  # of a block

    @property
    def epochs(self) -> int:
        """So many that no block has the last step, in which a run evaluates."""
        steps = (WARM_UP_BLOCKS + self.blocks) * self.steps
        return math.ceil((steps + 1) / (self.images // self.batch))


FULL, SMALL = Sizes(2048, 256, 9, 10), Sizes(64, 8, 2, 1)


def part(place: Place, found: Found) -> None:
    """Alternate blocks of steps of both, and compare their clocks with the wall's."""
    sizes = SMALL if place.small else FULL
    task = small_run.task(
        place.device,
        Cluster(WORKERS),
        torch.float32,
        data=small_run.random_images(32, 3, sizes.images),
        batch=sizes.batch,
        epochs=sizes.epochs,
    )
    run, hand = small_run.trainer(task, "ssgd", {}), engine.HandWritten(task)
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(WARM_UP_BLOCKS + sizes.blocks):
        ours.append(place.seconds(lambda: run.train(until=run.step + sizes.steps)) / sizes.steps)
        theirs.append(place.seconds(lambda: hand.train(sizes.steps)) / sizes.steps)
    wall = sizes.steps * sum(ours)
    del ours[:WARM_UP_BLOCKS], theirs[:WARM_UP_BLOCKS]
    ratio = median(a / b for a, b in zip(ours, theirs))
    found.figures |= {
        "blocks": len(ours),
        "engine_ms": 1e3 * median(ours),
        "by_hand_ms": 1e3 * median(theirs),
        "ratio": ratio,
        "most_ratio": MOST,
        "train_clock_of_wall": run.clock.read()["train"] / wall,
    }
    # On a CPU benchmarks/engine.py has the target.
    if place.is_gpu and not place.small and ratio > MOST:
        found.broken.append(f"the engine takes {ratio:.3f} times as long as the loop, more than {MOST}")
