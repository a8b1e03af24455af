"""What a batch costs on the train clock before its forward pass: it is chosen, augmented and normalised."""

from functools import partial
from statistics import median
from typing import NamedTuple

import torch

from gpu_parts import small_run
from gpu_parts.dispatch_counter import DispatchCounter
from gpu_parts.part import Found, Place
from thinwire.base.placement import on_gpu
from thinwire.data.batches import Batches
from thinwire.data.dataset import Augment

# Of a batch, on a GPU, whatever its size: each starts a kernel or more, and each takes the host some us.
MOST_OPERATIONS = 60
# The profiler itself waits for the whole device.
_WAITS = ("cudaStreamSynchronize", "cudaEventSynchronize")


class Sizes(NamedTuple):
    """Of the images, and how many."""

    side: int
    images: int
    batches: tuple[int, ...]
    repetitions: int


FULL = Sizes(128, 1024, (32, 128, 256), 15)
SMALL = Sizes(128, 32, (4, 16), 1)
AUGMENTS = {
    "resized_crop": Augment(least_area=0.25, flip=True),  # as ImageNet is augmented
    "padded_crop": Augment(pad=4, flip=True),  # as CIFAR is
}


def part(place: Place, found: Found) -> None:
    """Take batches as the engine takes them, and count operations, milliseconds and waits of one."""
    sizes = SMALL if place.small else FULL
    for name, augment in AUGMENTS.items():
        for batch in sizes.batches:
            figures = _of_batch(place, sizes, augment, batch)
            found.figures[f"{name}, {batch} images of {sizes.side} px"] = figures
            if place.is_gpu and figures["operations"] > MOST_OPERATIONS:
                found.broken.append(
                    f"{name}: a batch of {batch} takes {figures['operations']:.0f} operations, more than "
                    f"{MOST_OPERATIONS}"
                )
            if figures.get("waits"):
                found.broken.append(f"{name}: the host waits {figures['waits']:.0f} times for a batch")


def _of_batch(place: Place, sizes: Sizes, augment: Augment, batch: int) -> dict[str, float]:
    data = small_run.random_images(sizes.side, 3, sizes.images, augment)
    batches = Batches(data, 1, batch, 0, place.device, torch.float32)
    # The first one of an epoch takes its order to the device. All are of one epoch.
    batches.at(0)
    with DispatchCounter() as counter:
        batches.at(1)
    times = [place.seconds(partial(batches.at, 1)) for _ in range(sizes.repetitions)]
    figures: dict[str, float] = {"operations": counter.operations, "ms": 1e3 * median(times)}
    return figures | ({"waits": _waits(batches)} if on_gpu(place.device) else {})


def _waits(batches: Batches) -> int:
    """How often the host waits for a GPU while it starts the work of a batch."""
    from torch.profiler import ProfilerActivity, profile

    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as trace:
        batches.at(1)
    return sum(event.name in _WAITS for event in trace.events())
