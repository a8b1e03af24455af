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
    """Compare steps with and without it, of one worker, as a process has."""
    for model in ("cnn",) if place.small else ("cnn", "resnet"):
        figures, equal = _of_model(place, model)
        found.figures[model] = figures
        if place.is_gpu and figures["ratio"] > MOST:
            found.broken.append(
                f"{model}: a step with prefetch takes {figures['ratio']:.3f} times as long, and not {MOST}"
            )
        if not equal:
            found.broken.append(f"{model}: with prefetch the weights are others")


def _of_model(place: Place, model: str) -> tuple[dict[str, float], bool]:
    """Alternate blocks of steps of both; the figures, and whether the weights are the same in the end."""
    side, images, batch, blocks, steps = (
        (SMALL_SIDE, 64, 8, 2, 1) if place.small else (SIDE, 4096, 256, 20, 8)
    )
    data = small_run.random_images(side, 3, images, Augment(least_area=0.35, flip=True))
    epochs = 1 + (WARM_UP_BLOCKS + blocks) * steps * batch // images

    def trainer(prefetch: bool) -> Trainer:
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
        return small_run.trainer(task, "ssgd", {})

    def seconds(run: Trainer) -> float:
        return place.seconds(lambda: run.train(until=run.step + steps)) / steps

    without, ahead = trainer(False), trainer(True)
    pairs = [(seconds(ahead), seconds(without)) for _ in range(WARM_UP_BLOCKS + blocks)][WARM_UP_BLOCKS:]
    figures = {
        "with_ms": 1e3 * median(ours for ours, _ in pairs),
        "without_ms": 1e3 * median(theirs for _, theirs in pairs),
        "ratio": median(ours / theirs for ours, theirs in pairs),
    }
    weights = (run.workers[0].run.weights for run in (ahead, without))
    return figures, all(torch.equal(ours, theirs) for ours, theirs in zip(*weights))
