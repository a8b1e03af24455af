"""How much memory a run takes at most: of the device, over weights, gradients and momentum; of the host."""

import resource

import torch

from gpu_parts import small_run
from gpu_parts.part import Found, NotHere, Place
from thinwire.base.placement import Cluster

WORKERS = (4, 8, 16, 32)


def part(place: Place, found: Found) -> None:
    """Measure the peak for several numbers of workers on one device.

    Raises:
        NotHere: the device is a CPU, whose memory benchmarks/engine.py measures.
    """
    if not place.is_gpu:
        raise NotHere("torch counts no memory on CPUs; benchmarks/engine.py measures that of the process")
    data = small_run.random_images(32, 3, 2048)
    for workers in WORKERS[: 2 if place.small else None]:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        task = small_run.task(place.device, Cluster(workers), torch.float32, "resnet", data, 8 * workers)
        run = small_run.trainer(task, "ssgd", {})
        run.train(until=3)
        size = 4 * sum(weight.numel() for weight in run.workers[0].run.weights)
        peak = torch.cuda.max_memory_allocated() - before
        found.figures[f"{workers} workers"] = {"peak_mib": peak / 2**20, "ratio": peak / (3 * workers * size)}
        del run
    # Most of it is what CUDA and its libraries need in each process.
    found.figures["host_peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
