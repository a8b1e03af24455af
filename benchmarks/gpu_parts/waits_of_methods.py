"""How often the host waits for the device, starts kernels and allocates, for each method, step and worker."""

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile, record_function

from gpu_parts import small_run
from gpu_parts.dispatch_counter import DispatchCounter
from gpu_parts.part import Found, Place
from thinwire.train.trainer import Trainer

FIRST, STEPS = 6, 3
_RANGE = "these steps"
_WAITS = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize")


def part(place: Place, found: Found) -> None:
    """Count them in the middle of an epoch, where nothing is evaluated."""

    def count(name: str) -> dict[str, float]:
        run = small_run.trainer(small_run.task(place.device, dtype=torch.float32, method=name), name)
        run.train(until=FIRST)
        return (_profiled if place.is_gpu else _dispatched)(run)

    small_run.of_each_method(place, found, count)


def _dispatched(run: Trainer) -> dict[str, float]:
    with DispatchCounter() as counter:
        run.train(until=FIRST + STEPS)
    each = STEPS * len(run.workers)
    waits = {name: number / each for name, number in sorted(counter.waits.items())}
    return {"operations": counter.operations / each, **waits}


def _profiled(run: Trainer) -> dict[str, float]:
    before = torch.cuda.memory_stats()["allocation.all.allocated"]
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as trace:
        with record_function(_RANGE):
            run.train(until=FIRST + STEPS)
        torch.cuda.synchronize()
    each = STEPS * len(run.workers)
    events = [event for event in trace.events() if event.name != _RANGE]
    # Later waits are those of this function and of the profiler.
    end = next(event.time_range.end for event in trace.events() if event.name == _RANGE)
    return {
        "waits": sum(event.name in _WAITS and event.time_range.start < end for event in events) / each,
        "kernels": sum(event.device_type == DeviceType.CUDA for event in events) / each,
        "allocations": (torch.cuda.memory_stats()["allocation.all.allocated"] - before) / each,
    }
