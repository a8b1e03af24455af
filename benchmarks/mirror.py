"""How long a step of one worker among thousands takes, whose mates are taken to do what it does.

    python benchmarks/mirror.py [--record]

Mirrors worker 0 of 1,024 and of 4,096 workers, 8 on each node, on digits with the CNN of the demo, on one
core. All methods take part that work with SGD and need no preparation. Prints the median time of a step, the
slowest last. Exits with 0 only if the slowest meets its target.
"""

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median

import record
import torch

from thinwire import plugins
from thinwire.api.method import Method
from thinwire.api.run import Task
from thinwire.base.options import resolve
from thinwire.base.placement import Cluster
from thinwire.data import arrays
from thinwire.data.arrays import Data
from thinwire.data.dataset import lay_out
from thinwire.optim.recipe import Recipe
from thinwire.simulation.mirrored import MirroredTrainer
from thinwire.simulation.stand_ins import repeated
from thinwire.train.cell_task import deterministic
from thinwire.train.tracing import record_spans
from thinwire.transport.mirror import Mirror

SIZES = (1024, 4096)
WORKERS_PER_NODE = 8
BATCH, STEPS_PER_EPOCH, STEPS = 4, 5, 10
TARGET_SECONDS = 2.0


def digits() -> Data:
    dataset = plugins.get("dataset", "digits").load()()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        lay_out("digits", dataset, folder / "digits", None, folder / "download")
        return arrays.load(folder / "digits", dataset)


def a_task(data: Data, workers: int) -> Task:
    model = plugins.get("model", "cnn").load()
    config = resolve(model, {"width": 32})
    recipe = {
        "epochs": 12,
        "batch": BATCH,
        "batch_per": "worker",
        "optimizer": {"lr": 0.01, "momentum": 0.9},
        "schedule": {"name": "constant"},
    }
    return Task(
        build_model=lambda: model(config, data.shape, data.classes),
        data=repeated(data, workers * BATCH * STEPS_PER_EPOCH),
        recipe=Recipe.model_validate(recipe),
        cluster=Cluster(workers, workers // WORKERS_PER_NODE),
        seed=1,
    )


def step_seconds(task: Task, method: type[Method]) -> float:
    """The median time of a step of worker 0, with the method's options for short runs."""
    trainer = MirroredTrainer(task, method, resolve(method, method.short), Mirror(task.cluster.workers, 0))
    trainer.setup()
    record_spans(trainer)
    times = []
    for step in range(1, STEPS + 1):
        begin = time.perf_counter()
        trainer.train(until=step)
        times.append(time.perf_counter() - begin)
    return median(times)


def main(arguments: argparse.Namespace) -> int:
    deterministic(torch.device("cpu"))
    data = digits()
    methods = {name: plugin.load() for name, plugin in plugins.find("method").items()}
    methods = {
        name: method
        for name, method in methods.items()
        if "prepare" not in vars(method) and method.needs.works_with("sgd")
    }
    slowest = ("", 0.0)
    for name, method in methods.items():
        seconds = [step_seconds(a_task(data, workers), method) for workers in SIZES]
        print(f"{name}: {', '.join(f'{s:.3f} s with {w:,} workers' for s, w in zip(seconds, SIZES))}")
        slowest = max(slowest, (name, seconds[-1]), key=lambda found: found[1])
    name, worst = slowest
    print(f"slowest: a step of {name} with {SIZES[-1]:,} workers {worst:.2f} s (target <= {TARGET_SECONDS})")
    return int(worst > TARGET_SECONDS)


if __name__ == "__main__":
    raise SystemExit(record.run(main))
