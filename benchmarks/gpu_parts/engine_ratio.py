"""How much longer a step of the engine takes than one of a hand-written loop, with 8 workers."""

import time
from statistics import median

import engine
import torch

from gpu_parts import small_run
from gpu_parts.part import Found, Place
from thinwire.base.placement import Cluster

MOST = 1.02
BATCH, BLOCKS, STEPS = 256, 9, 10


def part(place: Place) -> Found:
    """Alternate blocks of steps of both, and compare their clocks with the wall's."""
    data = small_run.random_images(32, 3, 2048)
    task = small_run.task(place.device, Cluster(8), torch.float32, data=data, batch=BATCH)
    run, hand = small_run.trainer(task, "ssgd", {}), engine.HandWritten(task)
    steps = STEPS if place.is_gpu else 1
    most = run.total_steps // steps - 1
    ours: list[float] = []
    theirs: list[float] = []
    for block in range(min(BLOCKS + 2, most)):
        took = [
            _seconds(place, lambda: run.train(until=run.step + steps)),
            _seconds(place, lambda: hand.train(steps)),
        ]
        if block >= 2:  # the first ones warm up
            ours.append(took[0] / steps)
            theirs.append(took[1] / steps)
    ratio = median(a / b for a, b in zip(ours, theirs))
    found = Found(
        {
            "engine_ms": 1e3 * median(ours),
            "by_hand_ms": 1e3 * median(theirs),
            "ratio": ratio,
            "most_ratio": MOST,
            "train_clock_seconds": run.clock.read()["train"],
        }
    )
    # On a CPU benchmarks/engine.py has the target.
    if place.is_gpu and ratio > MOST:
        found.broken.append(f"the engine takes {ratio:.3f} times as long as the loop, more than {MOST}")
    return found


def _seconds(place: Place, action: object) -> float:
    place.wait()
    began = time.perf_counter()
    action()  # type: ignore[operator]
    place.wait()
    return time.perf_counter() - began
