"""Does `prefetch` hide the making of batches behind the step before, and are the weights the same?"""

from statistics import median

import torch

from gpu_parts import small_run
from gpu_parts.part import Found, Place
from thinwire.base.placement import Cluster
from thinwire.data.dataset import Augment
from thinwire.train.trainer import Trainer

# Beside steps without it, steps with it may take this much longer: it must not cost what it cannot save.
MOST = 1.02
WARM_UP_BLOCKS = 2
# Images of this side are augmented with random resized crops, the most expensive way.
SIDE, SMALL_SIDE = 128, 32


def part(place: Place, found: Found) -> None:
    """Alternate blocks of steps with and without it, with one worker, as a process has."""
    side, images, batch, blocks, steps = (
        (SMALL_SIDE, 64, 8, 2, 1) if place.small else (SIDE, 4096, 256, 20, 8)
    )
    data = small_run.random_images(side, 3, images, Augment(least_area=0.35, flip=True))
    for model in ("cnn",) if place.small else ("cnn", "resnet"):
        epochs = 1 + (WARM_UP_BLOCKS + blocks) * steps * batch // images
        runs: dict[str, Trainer] = {}
        for name, prefetch in (("without", False), ("with", True)):
            task = small_run.task(
                place.device,
                Cluster(1),
                torch.float32,
                model,
                data=data,
                batch=batch,
                epochs=epochs,
                recipe={"prefetch": prefetch},
            )
            runs[name] = small_run.trainer(task, "ssgd", {})
        seconds: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(WARM_UP_BLOCKS + blocks):
            for name, run in runs.items():
                took = place.seconds(lambda run=run: run.train(until=run.step + steps))
                seconds[name].append(took / steps)
        pairs = list(zip(seconds["with"], seconds["without"]))[WARM_UP_BLOCKS:]
        ratio = median(ours / theirs for ours, theirs in pairs)
        found.figures[model] = {
            "with_ms": 1e3 * median(ours for ours, _ in pairs),
            "without_ms": 1e3 * median(theirs for _, theirs in pairs),
            "ratio": ratio,
        }
        if place.is_gpu and ratio > MOST:
            found.broken.append(
                f"{model}: a step with prefetch takes {ratio:.3f} times as long, and not {MOST}"
            )
        weights = [run.workers[0].run.weights for run in runs.values()]
        if not all(torch.equal(ours, theirs) for ours, theirs in zip(*weights)):
            found.broken.append(f"{model}: with prefetch the weights are others")
