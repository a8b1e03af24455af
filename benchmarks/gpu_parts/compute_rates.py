"""Images or characters a second of whole training steps, and how fast a device copies and starts kernels.

A step is a forward pass, a backward pass and SGD with momentum, in deterministic mode, by the functions of
the engine. So a setting is what a recipe with this `precision` and `channels_last` means in a run.
"""

from collections.abc import Callable
from statistics import median
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from gpu_parts.part import Found, Place, first_line
from thinwire import plugins
from thinwire.base.errors import shortage
from thinwire.base.options import resolve
from thinwire.optim.optimizers import make_optimizer
from thinwire.optim.recipe import Recipe
from thinwire.train.cell_task import deterministic
from thinwire.train.passes import Passes

CLASSES = 100
PRECISIONS = ("bf16", "tf32", "fp32")
SETTINGS = [(precision, last) for precision in PRECISIONS for last in (True, False)]


class Network(NamedTuple):
    """A model of models/, its options, and the shape of an input: [channels, height, width], or [length]."""

    model: str
    options: dict[str, Any]
    shape: tuple[int, ...]

    @property
    def is_of_text(self) -> bool:
        """Are inputs windows of characters, and not images?"""
        return len(self.shape) == 1

    @property
    def unit(self) -> str:
        """How long an input is."""
        return f"{self.shape[-1]} {'characters' if self.is_of_text else 'px'}"

    def build(self) -> nn.Module:
        """The network, on the current device."""
        module = plugins.get("model", self.model).load()
        made: nn.Module = module(resolve(module, self.options), self.shape, CLASSES)
        return made

    def inputs(self, batch: int, device: torch.device) -> Tensor:
        """A batch of noise."""
        if self.is_of_text:
            return torch.randint(CLASSES, (batch, *self.shape), device=device)
        return torch.randn(batch, *self.shape, device=device)

    def labels(self, batch: int, device: torch.device) -> Tensor:
        """A class for each image, or for each character."""
        length = self.shape if self.is_of_text else ()
        return torch.randint(CLASSES, (batch, *length), device=device)


class Sizes(NamedTuple):
    """Which networks, on how much."""

    networks: dict[str, Network]
    batches: tuple[int, ...]  # the first ones are measured even if the time is short
    steps: int  # in a row
    repetitions: int
    copied_bytes: int
    launches: int


def _networks(side: int, largest: int, gpt: dict[str, int], context: int) -> dict[str, Network]:
    return {
        "resnet50": Network("resnet", {"depth": 50}, (3, largest, largest)),
        "resnet18": Network("resnet", {"depth": 18}, (3, side, side)),
        "gpt": Network("gpt", gpt, (context,)),
        "vgg16": Network("vgg", {"depth": 16}, (3, side, side)),
    }


# A GPT of 85 million weights, as GPT-2 without its vocabulary.
FULL = Sizes(
    _networks(128, 224, {"width": 768, "depth": 12, "heads": 12}, 256), (128, 256, 32), 5, 2, 2**30, 2000
)
SMALL = Sizes(_networks(32, 32, {"width": 16, "depth": 1, "heads": 2}, 8), (2,), 1, 1, 2**24, 100)


def part(place: Place, found: Found) -> None:
    """Time each network at each batch in each setting; what does not fit into memory is said."""
    sizes = SMALL if place.small else FULL
    found.figures["memory and launch"] = _memory_and_launch(place, sizes)
    models = {name: network.build().to(place.device) for name, network in sizes.networks.items()}
    for batch in sizes.batches:
        for name, network in sizes.networks.items():
            rates = found.figures[f"{name}, {network.unit}, batch {batch}"] = {}
            for precision, last in SETTINGS:
                if last and network.is_of_text:
                    continue  # a text has no channels
                setting = f"{precision} channels_last" if last else precision
                try:
                    step = _step(network, models[name], batch, place.device, _recipe(precision, last))
                    seconds = _seconds(place, sizes, step)
                except Exception as error:
                    rates[setting] = "does not fit into memory" if shortage(error) else "does not run"
                    if not shortage(error):
                        found.broken.append(f"{name}, batch {batch}, {setting}: {first_line(error)}")
                    continue
                rates[setting] = batch / seconds * (network.shape[0] if network.is_of_text else 1)


def _recipe(precision: str, channels_last: bool) -> Recipe:
    return Recipe.model_validate(
        {
            "epochs": 1,
            "batch": 1,
            "batch_per": "worker",
            "optimizer": {"lr": 0.01, "momentum": 0.9},
            "schedule": {"name": "constant"},
            "precision": precision,
            "channels_last": channels_last,
        }
    )


def _step(
    network: Network, model: nn.Module, batch: int, device: torch.device, recipe: Recipe
) -> Callable[[], None]:
    """A training step of a model on one batch."""
    deterministic(device, recipe.precision)
    passes = Passes(recipe, device)
    inputs, labels = network.inputs(batch, device), network.labels(batch, device)
    optimizer = make_optimizer(recipe.optimizer, list(model.parameters()))

    def step() -> None:
        optimizer.zero_grad()
        passes.loss(model, inputs, labels).backward()
        optimizer.step()

    return step


def _seconds(place: Place, sizes: Sizes, step: Callable[[], None]) -> float:
    """Of a step, when the host may run ahead, as it does in a run."""

    def steps() -> None:
        for _ in range(sizes.steps):
            step()

    place.seconds(steps)  # the first ones choose and load kernels
    return median(place.seconds(steps) for _ in range(sizes.repetitions)) / sizes.steps


def _memory_and_launch(place: Place, sizes: Sizes) -> dict[str, float]:
    """How fast the device copies a large tensor, and starts small kernels."""
    source = torch.ones(sizes.copied_bytes // 4, device=place.device)
    target, one = torch.empty_like(source), torch.ones(1, device=place.device)

    def copy() -> None:
        target.copy_(source)

    def launch() -> None:
        for _ in range(sizes.launches):
            one.add_(1)

    copying, launching = (median([place.seconds(a) for _ in range(8)][1:]) for a in (copy, launch))
    return {
        "memory_gigabytes_per_second": 2e-9 * source.nbytes / copying,
        "launch_seconds": launching / sizes.launches,
    }
