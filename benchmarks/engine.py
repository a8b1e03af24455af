"""What the engine costs in addition to a hand-written loop.

    python benchmarks/engine.py [--record]

Compares an in-process SSGD run of 8 workers with a hand-written loop over 8 replicas, on digits and
Fashion-MNIST with a small CNN. The loop does the same forward, backward and averaging with the same
optimizer. Blocks of steps of both are interleaved in one run. Also measures the harness's self-time, on a
model so small that the harness is most of a step, and the peak memory of a large model. Prints each figure
with its target, the worst ratio last. Exits with 0 only if all targets are met.

Fashion-MNIST is read from where `thinwire data fashion_mnist` finds it, or from `--data FOLDER`.
"""

import argparse
import copy
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import record
import torch
from torch import nn
from torch.nn import functional

from thinwire import plugins
from thinwire.api.run import Task, initial_model
from thinwire.base.errors import UserError
from thinwire.base.options import resolve
from thinwire.base.placement import Cluster
from thinwire.data import arrays
from thinwire.data.arrays import Data
from thinwire.data.batches import Batches
from thinwire.data.dataset import lay_out
from thinwire.optim.optimizers import make_optimizer
from thinwire.optim.recipe import Recipe
from thinwire.train.cell_task import deterministic
from thinwire.train.trainer import Trainer

WORKERS = 8
BATCH = 32
RATIO_TARGET = 1.02
SELF_TIME_TARGET_US = 50.0
MEMORY_TARGET = 1.10
BLOCKS = 15


class HandWritten:
    """SSGD of W replicas, as one would write it by hand for one model."""

    def __init__(self, task: Task) -> None:
        first = initial_model(task)
        self.models = [first, *(copy.deepcopy(first) for _ in range(task.cluster.workers - 1))]
        self.optimizers = [
            make_optimizer(task.recipe.optimizer, list(model.parameters())) for model in self.models
        ]
        batch = task.recipe.batch_per_worker(task.cluster.workers)
        self.batches = Batches(task.data, task.cluster.workers, batch, task.seed, task.device, task.dtype)
        self.step = 0

    def train(self, steps: int) -> None:
        """Forward, backward, average, step."""
        for _ in range(steps):
            for model, (images, labels) in zip(self.models, self.batches.at(self.step)):
                for parameter in model.parameters():
                    parameter.grad = None
                functional.cross_entropy(model(images), labels).backward()
            gradients = [[p.grad for p in model.parameters()] for model in self.models]
            with torch.no_grad():
                for others in gradients[1:]:
                    torch._foreach_add_(gradients[0], others)
                torch._foreach_div_(gradients[0], len(self.models))
                for others in gradients[1:]:
                    torch._foreach_copy_(others, gradients[0])
            for optimizer in self.optimizers:
                optimizer.step()
            self.step += 1


def a_task(data: Data, build: Callable[[], nn.Module], batch: int, epochs: int) -> Task:
    recipe = Recipe.model_validate(
        {
            "epochs": epochs,
            "batch": batch,
            "batch_per": "worker",
            "optimizer": {"lr": 0.01, "momentum": 0.9},
            "schedule": {"name": "constant"},
            "evaluate_every_epochs": epochs,
        }
    )
    return Task(build, data, recipe, Cluster(WORKERS), seed=1)


def a_trainer(task: Task) -> Trainer:
    method = plugins.get("method", "ssgd").load()
    trainer = Trainer(task, method, resolve(method, {}))
    trainer.setup()
    return trainer


def interleaved(task: Task, steps: int) -> tuple[float, float]:
    """Median seconds of a step, of the engine and of the hand-written loop; their blocks alternate."""
    engine, hand = a_trainer(task), HandWritten(task)
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(BLOCKS + 2):
        begin = time.perf_counter()
        engine.train(until=engine.step + steps)
        middle = time.perf_counter()
        hand.train(steps)
        end = time.perf_counter()
        times[0].append((middle - begin) / steps)
        times[1].append((end - middle) / steps)
    for mine, theirs in zip(engine.workers[0].run.weights, hand.models[0].parameters()):
        assert torch.equal(mine, theirs), "the two loops do not train the same weights"
    # The first two blocks warm up.
    return median(times[0][2:]), median(times[1][2:])


def cnn(data: Data) -> Callable[[], nn.Module]:
    model = plugins.get("model", "cnn").load()
    config = resolve(model, {})
    return lambda: model(config, data.shape, data.classes)


def wide(data: Data) -> nn.Module:
    """A model with large weights and small activations."""
    pixels = data.shape[0] * data.shape[1] * data.shape[2]
    return nn.Sequential(nn.Flatten(), nn.Linear(pixels, 3000), nn.Linear(3000, 3000))


def peak_memory(data: Data) -> float:
    """Peak resident memory of a run, divided by the size of its weights, gradients and momentum."""
    task = a_task(data, lambda: wide(data), batch=2, epochs=1)
    size = 4 * sum(p.numel() for p in wide(data).parameters())
    # A tiny run first, because what torch loads at first use is not the engine's memory.
    a_trainer(a_task(data, lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), 2, 1)).train(until=1)
    before = status_bytes("VmRSS")
    trainer = a_trainer(task)
    trainer.train(until=3)
    trainer.shipped()
    return (status_bytes("VmHWM") - before) / (WORKERS * 3 * size)


def status_bytes(field: str) -> int:
    """Memory of this process from the kernel: VmRSS is resident now, VmHWM is the highest so far.

    getrusage's maximum does not serve: a process inherits it from the process that started it.
    """
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))


def load(name: str, folder: Path, place: Path | None) -> Data:
    dataset = plugins.get("dataset", name).load()()
    lay_out(name, dataset, folder / name, place, folder / "download")
    return arrays.load(folder / name, dataset)


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, help="folder with the files of Fashion-MNIST")
    parser.add_argument("--memory", action="store_true", help=argparse.SUPPRESS)


def main(arguments: argparse.Namespace) -> int:
    deterministic(torch.device("cpu"))
    with tempfile.TemporaryDirectory() as scratch:
        digits = load("digits", Path(scratch), None)
        if arguments.memory:
            print(peak_memory(digits))
            return 0
        try:
            fashion = load("fashion_mnist", Path(scratch), arguments.data)
        except UserError as error:
            print(f"benchmarks/engine.py: {error}", file=sys.stderr)
            return 2
    ratios = []
    for data, steps, epochs in ((digits, 30, 200), (fashion, 10, 10)):
        engine, hand = interleaved(a_task(data, cnn(data), BATCH, epochs), steps)
        ratios.append(engine / hand)
        print(
            f"{data.name}: engine {engine * 1e3:.2f} ms a step of {WORKERS} workers, "
            f"by hand {hand * 1e3:.2f} ms, ratio {ratios[-1]:.3f}"
        )

    def tiny() -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))

    engine, hand = interleaved(a_task(digits, tiny, 1, 200), 200)
    self_time = (engine - hand) / WORKERS * 1e6
    print(f"harness self-time {self_time:.1f} us a step and worker (target <= {SELF_TIME_TARGET_US:.0f})")
    # Measured in its own process, so that the peak is that of this run.
    answer = subprocess.run(
        [sys.executable, __file__, "--memory"], capture_output=True, text=True, check=True
    )
    memory = float(answer.stdout)
    print(
        f"peak memory {memory:.3f} of weights, gradients and momentum of all workers "
        f"(target <= {MEMORY_TARGET:.2f})"
    )
    ratio = max(ratios)
    print(f"engine ratio {ratio:.2f} (target <= {RATIO_TARGET:.2f})")
    held = ratio <= RATIO_TARGET and self_time <= SELF_TIME_TARGET_US and memory <= MEMORY_TARGET
    return int(not held)


if __name__ == "__main__":
    sys.exit(record.run(main, options))
