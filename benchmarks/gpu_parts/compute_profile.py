"""How fast the device trains, copies and starts kernels: the numbers of a compute profile."""

import platform
import time
from statistics import median

import torch
from torch.nn import functional

from gpu_parts import small_run
from gpu_parts.part import Found, Place
from thinwire.api.run import initial_model
from thinwire.records.provenance import processor
from thinwire.simulation.compute import BACKWARD_OVER_FORWARD, forward_flops

BATCH, COPIED_BYTES, LAUNCHES, REPETITIONS = 256, 2**30, 2000, 7
SMALL_BATCH, SMALL_COPIED_BYTES = 16, 2**26


def part(place: Place) -> Found:
    """Train `resnet` on images of 32 x 32, copy a large tensor, and start many small kernels."""
    data = small_run.random_images(32, 3)
    task = small_run.task(place.device, dtype=torch.float32, model="resnet", data=data)
    model = initial_model(task)
    batch = BATCH if place.is_gpu else SMALL_BATCH
    images = torch.randn(batch, *data.shape, device=place.device)
    labels = torch.randint(0, data.classes, (batch,), device=place.device)
    flops = (1 + BACKWARD_OVER_FORWARD) * sum(_leaves(forward_flops(model, images)).values())

    def train() -> None:
        functional.cross_entropy(model(images), labels).backward()

    source = torch.ones((COPIED_BYTES if place.is_gpu else SMALL_COPIED_BYTES) // 4, device=place.device)
    target, one = torch.empty_like(source), torch.ones(1, device=place.device)

    def launch() -> None:
        for _ in range(LAUNCHES):
            one.add_(1)

    return Found(
        {
            "title": f"{_name(place)}, 32-bit floats, measured by benchmarks/gpu.py",
            "flops_per_second": flops / _seconds(place, train),
            "memory_gigabytes_per_second": 2e-9
            * source.nbytes
            / _seconds(place, lambda: target.copy_(source)),
            "launch_seconds": _seconds(place, launch) / LAUNCHES,
            "error": f"measured with resnet on {batch} images of 32 x 32; other networks and batches use the "
            "device differently",
        }
    )


def _name(place: Place) -> str:
    return torch.cuda.get_device_name(place.device) if place.is_gpu else processor() or platform.machine()


def _leaves(flops: dict[str, int]) -> dict[str, int]:
    """The layers that contain no others, so that nothing counts twice."""
    return {
        name: count
        for name, count in flops.items()
        if not any(other.startswith(f"{name}.") for other in flops)
    }


def _seconds(place: Place, action: object) -> float:
    times = []
    for _ in range(REPETITIONS + 1):
        place.wait()
        began = time.perf_counter()
        action()  # type: ignore[operator]
        place.wait()
        times.append(time.perf_counter() - began)
    return median(times[1:])
