"""What a batch costs on the train clock before its forward pass: it is chosen, augmented and normalised."""

from functools import partial
from statistics import median
from typing import NamedTuple

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

from gpu_parts import small_run
from gpu_parts.dispatch_counter import DispatchCounter
from gpu_parts.part import Found, Place
from thinwire.data.batches import Batches
from thinwire.data.dataset import Augment

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
        own = {batch: _of_batch(place, sizes, augment, batch) for batch in sizes.batches}
        found.figures |= {f"{name}, {batch} images of {sizes.side} px": made for batch, made in own.items()}
        counts = [made["operations"] for made in own.values()]
        if place.is_gpu and len(set(counts)) > 1:
            found.broken.append(f"{name}: the number of operations grows with the batch: {counts}")
        if waits := max(made.get("waits", 0) for made in own.values()):
            found.broken.append(f"{name}: the host waits {waits} times for a batch")


def _of_batch(place: Place, sizes: Sizes, augment: Augment, batch: int) -> dict[str, float]:
    data = small_run.random_images(sizes.side, 3, sizes.images, augment)
    batches = Batches(data, 1, batch, 0, place.device, torch.float32)
    # The first one of an epoch takes its order to the device. All are of one epoch.
    batches.at(0)
    with DispatchCounter() as counter:
        batches.at(1)
    times = [place.seconds(partial(batches.at, 1)) for _ in range(sizes.repetitions)]
    figures: dict[str, float] = {"operations": counter.operations, "ms": 1e3 * median(times)}
    return figures | (_profiled(batches) if place.is_gpu else {})


def _profiled(batches: Batches) -> dict[str, float]:
    """How many kernels and copies a GPU does for a batch, and how often the host waits meanwhile."""
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as trace:
        batches.at(1)
    events = trace.events()
    return {
        "kernels": sum(event.device_type == DeviceType.CUDA for event in events),
        "waits": sum(event.name in _WAITS for event in events),
    }
