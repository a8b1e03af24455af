"""What a trace costs, and what it costs where nothing is traced.

    python benchmarks/trace.py [--record]

- The cost of a span in a loop: each turn switches the activity, which appends a span.
- The cost of a span in steps of a traced run, compared with the same steps when the recorder does nothing.
  Torch also takes time to call the hooks. Steps of a run without hooks show how much.
- The cost where nothing is traced: each call and each codec checks whether there is a recorder. Steps with
  these checks and steps in which they are patched out alternate in one run. Two kinds of blocks have the
  checks, so that the ratio between these shows the noise. Where the noise is larger than the cost, the number
  of checks and the time of the most expensive kind say more.

The runs are in one process: digits, 8 workers, and a model so small that the engine is most of a step. So the
ratios are worse than in any real run. Times are CPU time of this process, because other processes disturb the
clock on the wall. Prints each figure with its target, the worst ratio last. Exits with 0 only if a span costs
at most 1 us in the loop, and the checks at most 0.5 % of a step. This holds for the measured cost, or the
cost is within the noise; and it holds for the cost computed from the number of checks.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any

import record
import torch
from engine import a_task, load
from torch import nn

from thinwire import plugins
from thinwire.api.channel import Channel
from thinwire.base.errors import MethodError
from thinwire.base.options import resolve
from thinwire.data.arrays import Data
from thinwire.trace import recorder as tracing
from thinwire.trace.recorder import (
    DECODE,
    ENCODE,
    METHOD,
    SERVER,
    TRANSPORT,
    WAIT,
    Activity,
    Recorder,
)
from thinwire.train.cell_task import deterministic
from thinwire.train.tracing import record_spans
from thinwire.train.trainer import Trainer
from thinwire.transport.call import Call, Group, Pending, serving

SPAN_TARGET_US = 1.0
RATIO_TARGET = 1.005
METHODS = ("ssgd", "top_k", "ps_sgd")
SPANS, LOOPS = 20_000, 15
BLOCKS, STEPS = 61, 20


def span_us() -> float:
    """Microseconds of a span in a loop: the median of the loops."""
    activity, seconds = Activity(METHOD, "step"), []
    for _ in range(LOOPS):
        recorder = Recorder(0)
        began = process_time()
        for _ in range(SPANS // 2):
            before = recorder.switch(activity)
            recorder.switch(before)
        seconds.append((process_time() - began) / len(recorder.spans))
    return median(seconds) * 1e6


def look_us() -> float:
    """Microseconds of the most expensive look, that of a decorated function: the median of the loops."""

    def bare() -> None:
        pass

    looks, seconds = tracing.recorded(ENCODE)(bare), []
    for _ in range(LOOPS):
        times = []
        for function in (bare, looks):
            began = process_time()
            for _ in range(SPANS):
                function()
            times.append(process_time() - began)
        seconds.append((times[1] - times[0]) / SPANS)
    return median(seconds) * 1e6


def tiny() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))


def a_trainer(data: Data, method: str) -> Trainer:
    loaded = plugins.get("method", method).load()
    trainer = Trainer(a_task(data, tiny, 1, 1000), loaded, resolve(loaded, {}))
    trainer.setup()
    return trainer


def seconds_of(trainer: Trainer, steps: int) -> float:
    """CPU seconds of a step."""
    began = process_time()
    trainer.train(until=trainer.step + steps)
    return (process_time() - began) / steps


def traced_step(data: Data, method: str) -> tuple[list[float], float, float]:
    """Seconds of a step not traced, with idle recorders, and traced; its numbers of spans and of looks."""
    plain, traced = a_trainer(data, method), a_trainer(data, method)
    recorders = record_spans(traced)
    blocks, spans, looks = [], 0.0, 0.0
    for _ in range(BLOCKS):
        without = seconds_of(plain, STEPS)
        with idle_recorders():
            idle = seconds_of(traced, STEPS)
        blocks.append((without, idle, seconds_of(traced, STEPS)))
        spans = sum(len(recorder.spans) for recorder in recorders) / STEPS
        kinds = [span[1].kind for recorder in recorders for span in recorder.spans]
        # A call looks when it is handed over and when it is waited for.
        looks = kinds.count(TRANSPORT) + kinds.count(WAIT)
        looks += sum(kind in (ENCODE, DECODE, SERVER) for kind in kinds)
        for recorder in recorders:
            # A trace is short. Millions of spans would slow down Python's garbage collection.
            recorder.spans.clear()
            recorder.calls.clear()
    # The first block warms up.
    return [median(column) for column in zip(*blocks[1:])], spans, looks / STEPS


@contextmanager
def idle_recorders() -> Iterator[None]:
    """Let recorders do nothing when the activity changes."""
    switch, cut = Recorder.switch, Recorder.cut
    Recorder.switch = lambda self, activity: self.current  # type: ignore[method-assign]
    Recorder.cut = lambda self, name: None  # type: ignore[method-assign]
    try:
        yield
    finally:
        Recorder.switch, Recorder.cut = switch, cut  # type: ignore[method-assign]


@contextmanager
def no_looks() -> Iterator[None]:
    """Patch out every look for a recorder in calls and codecs."""
    undo: list[Callable[[], None]] = []

    def patch(owner: Any, name: str, new: Any) -> None:
        old = vars(owner)[name]
        undo.append(lambda: setattr(owner, name, old))
        setattr(owner, name, new)

    def hand_over(self: Channel, carry: Callable[[Group, Call], Pending[Any]], call: Call) -> Pending[Any]:
        if when := "in a server's update" if serving() else self.shut:
            raise MethodError(f"run.{self.name}.{call.verb} was called {when}")
        pending = carry(self, call)
        self.unclaimed.add(pending)
        return pending

    def wait(self: Pending[Any]) -> Any:
        self.group.unclaimed.discard(self)
        if not self.done:
            self._wait(self)
        return self._result

    patch(Channel, "_hand_over", hand_over)
    patch(Pending, "wait", wait)
    for owner, name, function in recorded_functions():
        patch(owner, name, function.__wrapped__)
    try:
        yield
    finally:
        for restore in undo:
            restore()


def recorded_functions() -> Iterator[tuple[Any, str, Any]]:
    """Every name in a module or a class that stands for a function decorated with `recorded`."""
    code = tracing.recorded("")(lambda: None).__code__
    modules = [m for name, m in list(sys.modules.items()) if name.startswith("thinwire")]
    classes = [each for m in modules for each in list(vars(m).values()) if isinstance(each, type)]
    for owner in {id(each): each for each in (*modules, *classes)}.values():
        for name, value in list(vars(owner).items()):
            if getattr(value, "__code__", None) is code:
                yield owner, name, value


def looks_ratio(data: Data, method: str) -> tuple[float, float, float]:
    """Step time with the looks over that without; the same with the looks on both sides; the noise.

    The noise is twice the standard error of the median of such ratios.
    """
    trainer = a_trainer(data, method)
    seconds_of(trainer, STEPS)
    ratios, same = [], []
    for block in range(BLOCKS):
        times: dict[str, float] = {}
        kinds = ["looks", "looks again", "none"]
        for kind in kinds[block % 3 :] + kinds[: block % 3]:
            if kind == "none":
                with no_looks():
                    times[kind] = seconds_of(trainer, STEPS)
            else:
                times[kind] = seconds_of(trainer, STEPS)
        ratios.append(times["looks"] / times["none"])
        same.append(times["looks again"] / times["looks"])
    spread = torch.tensor(same).std().item()
    return median(ratios), median(same), 2 * 1.253 * spread / BLOCKS**0.5


def main(arguments: argparse.Namespace) -> int:
    """Measure, and report whether the targets are met."""
    deterministic(torch.device("cpu"))
    with tempfile.TemporaryDirectory() as scratch:
        data = load("digits", Path(scratch), None)
    span = span_us()
    print(f"a span in a loop: {span:.2f} us (target <= {SPAN_TARGET_US:.0f})", flush=True)
    look = look_us()
    computed = {}
    for method in METHODS:
        (plain, idle, traced), spans, looks = traced_step(data, method)
        computed[method] = (looks, 1 + looks * look * 1e-6 / plain)
        print(
            f"{method}: a step of all workers {plain * 1e3:.3f} ms, traced {traced * 1e3:.3f} ms with "
            f"{spans:.0f} spans: each {(traced - idle) / spans * 1e6:.2f} us, "
            f"and {(idle - plain) / spans * 1e6:.2f} us for its hook",
            flush=True,
        )
    held, worst = span <= SPAN_TARGET_US, 0.0
    for method in METHODS:
        ratio, same, noise = looks_ratio(data, method)
        looks, known = computed[method]
        held &= ratio <= max(RATIO_TARGET, 1 + noise) and known <= RATIO_TARGET
        worst = max(worst, ratio)
        print(
            f"{method}, not traced: step with looks over step without {ratio:.4f}; of equal steps "
            f"{same:.4f}, noise {noise:.4f}; {looks:.0f} looks of {look:.3f} us make {known:.4f}",
            flush=True,
        )
    print(f"not traced: ratio {worst:.4f} (target <= {RATIO_TARGET:.3f}, or within the noise)")
    return int(not held)


if __name__ == "__main__":
    sys.exit(record.run(main))
