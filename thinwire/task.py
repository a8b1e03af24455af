"""A task: what is to be trained, independently of the method."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from thinwire import seeds
from thinwire.data.arrays import Data
from thinwire.optim.recipe import Recipe
from thinwire.worker_placement import Cluster

if TYPE_CHECKING:
    # No part of the training loop, so that a model's cells depend on it.
    from thinwire.model import Model


@dataclass(frozen=True)
class Task:
    """A model, its data and its recipe, on a cluster."""

    build_model: Callable[[], "Model"]
    data: Data
    recipe: Recipe
    cluster: Cluster
    seed: int
    device: torch.device = torch.device("cpu")  # noqa: RUF009
    dtype: torch.dtype = torch.float32


def initial_model(task: Task) -> "Model":
    """Return the model with its initial weights, which are the same for all methods of a block."""
    # No state of a GPU is kept: the model is built on the CPU, and every step seeds its own generators.
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seeds.of_weights(task.seed))
        return task.build_model().to(device=task.device, dtype=task.dtype).train()
