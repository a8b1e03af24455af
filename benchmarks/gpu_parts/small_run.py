"""Small runs of every method on a device, on random images. They need no files."""

import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gpu_parts.part import Found, Place, first_line
from thinwire import plugins
from thinwire.api.method import Method
from thinwire.api.run import Task
from thinwire.base.options import resolve
from thinwire.base.placement import Cluster
from thinwire.data.arrays import Data
from thinwire.data.dataset import Augment
from thinwire.optim.recipe import Recipe
from thinwire.records.result import Cost, Traffic
from thinwire.train.preparation import PreparationJob
from thinwire.train.trainer import Trainer

IMAGES, CLASSES = 120, 10
# So many reach all phases of every method with its options for short runs.
EPOCHS, STEPS_PER_EPOCH = 3, 5
# On as many nodes every method of ours runs.
CLUSTER = Cluster(4, 2)
# Together they use every kind of collective call, an optimizer of their own, and random selections.
SOME_METHODS = ("daso", "des_loc", "dgc", "ps_sgd")


@cache
def random_images(
    side: int = 8, channels: int = 1, images: int = IMAGES, augment: Augment | None = None
) -> Data:
    """Images of noise, the same on every machine."""
    draw = np.random.default_rng(0)
    shape = (images, channels, side, side)
    pixels = torch.from_numpy(draw.integers(0, 256, shape, dtype=np.uint8))
    labels = torch.from_numpy(draw.integers(0, CLASSES, images))
    return Data(
        name="noise",
        classes=CLASSES,
        shape=(channels, side, side),
        augment=augment or Augment(pad=1, flip=True),
        mean=(127.5,) * channels,
        std=(74.0,) * channels,
        train_inputs=pixels,
        train_labels=labels,
        test_inputs=pixels[:50],
        test_labels=labels[:50],
        checksums={},
    )


def task(
    device: torch.device,
    cluster: Cluster = CLUSTER,
    dtype: torch.dtype = torch.float64,
    model: str = "cnn",
    data: Data | None = None,
    batch: int = IMAGES // STEPS_PER_EPOCH,
    method: str = "ssgd",
    epochs: int = EPOCHS,
    recipe: dict[str, Any] | None = None,
) -> Task:
    """A task with momentum and weight decay, or with the first optimizer that a method without SGD names.

    In 64 bits two entries are hardly ever so close that rounding decides which is larger. So a selection that
    differs between two devices is a fault, and no tie.

    Args:
        device: of the workers.
        cluster: workers and nodes.
        dtype: of the weights.
        model: name of a module in models/.
        data: images; the default is `random_images()`.
        batch: of the whole run.
        method: that is to be trained.
        epochs: of the run.
        recipe: further keys of the recipe.
    """
    # DeMo moves each weight by the whole rate. A larger one would soon turn off channels for good. Their
    # means are zero but for rounding, whose sign would decide.
    optimizer: dict[str, Any] = {"lr": 0.002, "momentum": 0.9, "weight_decay": 0.01}
    if (other := plugins.get("method", method).load().needs.optimizer_without_sgd()) is not None:
        optimizer = {"name": other, "lr": 0.001, "weight_decay": 0.01}
    data = data or random_images()
    module = plugins.get("model", model).load()
    config = resolve(module, {})
    made = Recipe.model_validate(
        {
            "epochs": epochs,
            "batch": batch,
            "batch_per": "run",
            "optimizer": optimizer,
            "schedule": {"name": "constant"},
            "evaluate_every_epochs": epochs,
            **(recipe or {}),
        }
    )
    return Task(
        lambda: module(config, data.shape, data.classes),
        data,
        made,
        cluster,
        seed=3,
        dtype=dtype,
        device=device,
    )


def methods(place: Place) -> list[str]:
    """The names of all methods in methods/, or of some."""
    return list(SOME_METHODS) if place.small else sorted(plugins.find("method"))


def of_each_method(place: Place, found: Found, run: Callable[[str], Any]) -> None:
    """Put what `run` returns for each method into the figures, and what it raises into what is broken."""
    for name in methods(place):
        try:
            found.figures[name] = run(name)
        except Exception as error:
            found.broken.append(f"{name}: {first_line(error)}")


def trainer(
    task: Task, name: str, options: dict[str, Any] | None = None, prepared: Path | None = None
) -> Trainer:
    """A run of a method that is set up.

    Args:
        task: that it trains.
        name: of the method.
        options: of the method; the default ones are those for short runs.
        prepared: the folder of another run's preparation; by default the method prepares itself.
    """
    own, config = method(name, options)
    made = Trainer(task, own, config)
    made.setup(prepared or _prepared(task, own, config))
    return made


def method(name: str, options: dict[str, Any] | None = None) -> tuple[type[Method], Any]:
    """A method with its options; the default options are those for short runs."""
    own: type[Method] = plugins.get("method", name).load()
    return own, resolve(own, own.short if options is None else options)


def _prepared(task: Task, method: type[Method], config: Any) -> Path | None:
    if "prepare" not in vars(method):
        return None
    folder = Path(tempfile.mkdtemp(prefix="thinwire-prepared-"))
    nothing = Cost(seconds=0.0, traffic=Traffic.sum([]))
    method.prepare(config, PreparationJob(task, "none", folder, nothing, lambda cost: None, 60.0), folder)
    return folder
