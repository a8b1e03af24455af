"""How much longer a step of the engine takes than one of a hand-written loop, with 8 workers.

Where the GPU is the limit, the ratio has a target. Where the host is, what the engine adds to a worker's step
is a fixed time of this host. A ratio would then be about the size of the model.
"""

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
    """What is trained, and how much is timed."""

    side: int  # of the images
    images: int
    batch: int  # of all workers
    blocks: int  # that are timed
    steps: int  # of a block

    @property
    def epochs(self) -> int:
        """So many that no block has the last step, in which a run evaluates."""
        steps = (WARM_UP_BLOCKS + self.blocks) * self.steps
        return math.ceil((steps + 1) / (self.images // self.batch))


# The names are those of models. A GPU waits for the host with the first one, and the host for it with the
# second one, which has the target. Blocks are short, because the pace of a host changes within seconds.
HOST_IS_THE_LIMIT = "cnn"
FULL = {"cnn": Sizes(32, 2048, 256, 30, 4), "resnet": Sizes(128, 2048, 1024, 9, 2)}
SMALL = {"cnn": Sizes(32, 64, 8, 2, 1)}


def part(place: Place, found: Found) -> None:
    """Time both with each model."""
    for model, sizes in (SMALL if place.small else FULL).items():
        figures = found.figures[model] = _of_model(place, model, sizes)
        # On a CPU benchmarks/engine.py has the target.
        if place.is_gpu and model != HOST_IS_THE_LIMIT and figures["ratio"] > MOST:
            found.broken.append(
                f"{model}: the engine takes {figures['ratio']:.3f} times as long as the loop, and not {MOST}"
            )


def _of_model(place: Place, model: str, sizes: Sizes) -> dict[str, float]:
    """Alternate blocks of steps of both, and compare their clocks with the wall's."""
    task = small_run.task(
        place.device,
        Cluster(WORKERS),
        torch.float32,
        model,
        data=small_run.random_images(sizes.side, 3, sizes.images),
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
    return {
        "blocks": len(ours),
        "engine_ms": 1e3 * median(ours),
        "by_hand_ms": 1e3 * median(theirs),
        "ratio": median(a / b for a, b in zip(ours, theirs)),
        "added_us": 1e6 * median(a - b for a, b in zip(ours, theirs)) / WORKERS,
        "train_clock_of_wall": run.clock.read()["train"] / wall,
    }
