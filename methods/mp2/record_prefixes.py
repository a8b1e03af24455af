"""The prefixes on which the predictor is trained: from random steps in each epoch of a dense run."""

from dataclasses import replace
from pathlib import Path

import torch
from safetensors import safe_open
from torch import Tensor

from thinwire import Job, Method, UserError
from thinwire.api.method import Training
from thinwire.base import seeds
from thinwire.base.placement import Cluster
from thinwire.records.checkpoint import write_tensors

from .layers import flatten_all, split
from .options import Options


def record_prefixes(method: type[Method], config: Options, everything: int, job: Job) -> "Prefixes":
    """Train the whole model with parameter averaging. Returns the averaged prefixes of the chosen steps."""
    try:
        job.task.recipe.batch_per_worker(config.bsp_workers)
    except ValueError as error:
        raise UserError(f"{error}: choose another bsp_workers") from None
    folder = job.scratch / "prefixes"
    epoch_prefixes = []

    def after_step(trainer: Training) -> None:
        epoch, step = divmod(trainer.step - 1, trainer.steps_per_epoch)
        if step in _chosen(job.task.seed, epoch, trainer.steps_per_epoch, config.prefixes_per_epoch):
            pushed, _ = split(trainer.workers[0].model, config.pushed_stages)
            epoch_prefixes.append(flatten_all([[p.tensor.data for p in layer] for layer in pushed]))

    def after_epoch(trainer: Training) -> None:
        epoch = trainer.step // trainer.steps_per_epoch
        write_tensors(folder / f"{epoch:06d}.safetensors", {"prefixes": torch.stack(epoch_prefixes)})
        epoch_prefixes.clear()

    task = replace(job.task, cluster=Cluster(config.bsp_workers))
    bsp = replace(config, pushed_stages=everything)
    job.train(task, method, bsp, job.scratch / "dense run", after_epoch, after_step)
    return Prefixes(folder)


def _chosen(seed: int, epoch: int, steps: int, count: int) -> set[int]:
    """The steps of an epoch whose prefix is kept, all different."""
    generator = torch.Generator().manual_seed(seeds.derive(seed, "prefixes", epoch))
    return set(torch.randperm(steps, generator=generator)[:count].tolist())


class Prefixes:
    """The recorded prefixes in their order, read from disk one at a time."""

    def __init__(self, folder: Path) -> None:
        self.rows = []
        for path in sorted(folder.glob("*.safetensors")):
            with safe_open(path, "pt") as file:
                self.rows += [(path, row) for row in range(file.get_slice("prefixes").get_shape()[0])]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, number: int) -> Tensor:
        path, row = self.rows[number]
        with safe_open(path, "pt") as file:
            return file.get_slice("prefixes")[row]
