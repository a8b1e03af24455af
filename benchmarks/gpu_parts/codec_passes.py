"""What selecting the largest entries costs, in memory passes: the time of copying the same tensor."""

import time
from collections.abc import Callable
from statistics import median

import torch

from gpu_parts.part import Found, Place
from thinwire.codecs import select

SIZES = (1_000_000, 10_000_000, 25_000_000)
REPETITIONS = 15
EXACT_DENSITY, SAMPLED_DENSITY = 0.01, 0.001


def part(place: Place) -> Found:
    """Time each with events of the device's stream."""
    found = Found()
    for numel in SIZES if place.is_gpu else SIZES[:1]:
        stream = torch.Generator().manual_seed(0)
        row = torch.randn(numel, generator=stream).to(place.device)
        other = torch.empty_like(row)
        actions: dict[str, Callable[[], object]] = {
            "copy": lambda: other.copy_(row),  # noqa: B023
            "topk": lambda: torch.topk(row.abs(), select.count(EXACT_DENSITY, numel)),  # noqa: B023
            "exact": lambda: select.exact([row], [select.count(EXACT_DENSITY, numel)]),  # noqa: B023
            "sampled": lambda: select.sampled([row], [select.count(SAMPLED_DENSITY, numel)], stream),  # noqa: B023
        }
        took = {name: median(_times(place, action)) for name, action in actions.items()}
        found.figures[f"{numel // 10**6} M"] = {
            "copy_ms": took["copy"],
            **{f"{name}_passes": took[name] / took["copy"] for name in ("topk", "exact", "sampled")},
        }
    return found


def _times(place: Place, action: Callable[[], object]) -> list[float]:
    """Milliseconds of each repetition; the first one warms up."""
    times = []
    for _ in range(REPETITIONS + 1):
        if place.is_gpu:
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            action()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end))
        else:
            began = time.perf_counter()
            action()
            times.append(1e3 * (time.perf_counter() - began))
    return times[1:]
