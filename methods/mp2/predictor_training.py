"""Trains the predictor, on the loss of the model that consists of a recorded prefix and its prediction."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.func import functional_call
from torch.nn import functional

from thinwire import Job
from thinwire.api.run import initial_model
from thinwire.base import seeds
from thinwire.base.files import write_text
from thinwire.data.arrays import Normalise
from thinwire.data.augmentation import augmented, mixup
from thinwire.records import checkpoint
from thinwire.train.evaluation import evaluate

from .layers import flatten_all, shapes_of, split, unflatten_all
from .options import Options
from .predictor import Predictor
from .record_prefixes import Prefixes


def train_predictor(config: Options, job: Job, prefixes: Prefixes, file: Path) -> None:
    """Train the predictor, and save its weights from the epoch with the best held-out accuracy."""
    training = Training(config, job)
    saved = checkpoint.latest(job.scratch / "predictor", warn=print)
    if saved is not None:
        training.load(saved)
    while training.epoch < config.predictor_epochs:
        training.train_an_epoch(prefixes)
        checkpoint.save(job.scratch / "predictor", training.epoch, training.state())
        job.note()
    checkpoint.write_tensors(file, training.best)
    lines = ["epoch,train_loss,held_out_accuracy_percent", *training.log]
    write_text(file.with_suffix(".csv"), "\n".join(lines) + "\n")


class Training:
    """A predictor and the state of its training."""

    def __init__(self, config: Options, job: Job) -> None:
        self.config, self.task, self.data = config, job.task, job.task.data
        self.model = initial_model(job.task)
        self.layers = split(self.model, config.pushed_stages)
        self.names = [param.name for part in self.layers for layer in part for param in layer]
        pushed, predicted = map(shapes_of, self.layers)
        prefix = len(flatten_all([[p.tensor for p in layer] for layer in self.layers[0]]))
        self.shapes = [*pushed, *predicted]
        self._begin_stream(-1)
        predictor = Predictor(prefix, predicted).initialise()
        self.predictor = predictor.to(job.task.device, job.task.dtype)
        self.adam = torch.optim.Adam(self.predictor.parameters(), lr=config.predictor_lr, fused=True)
        self.normalise = Normalise(self.data, job.task.device, job.task.dtype)
        self.epoch, self.best_accuracy = 0, -1.0
        self.best: dict[str, Tensor] = {}
        self.log: list[str] = []

    def _begin_stream(self, epoch: int) -> None:
        """Seed all randomness of an epoch, including dropout, so that interruptions do not change it."""
        seed = seeds.derive(self.task.seed, "predictor", epoch)
        torch.manual_seed(seed)
        self.stream = torch.Generator().manual_seed(seed)

    @torch.enable_grad()
    def train_an_epoch(self, prefixes: Prefixes) -> None:
        """One pass over the prefixes: one random prefix of each batch, each on newly drawn images."""
        self._begin_stream(self.epoch)
        losses = []
        for batch in torch.randperm(len(prefixes), generator=self.stream).split(
            self.config.prefixes_per_batch
        ):
            chosen = torch.randint(len(batch), (1,), generator=self.stream)
            prefix = prefixes[int(batch[chosen])].to(self.task.device)
            for images, labels in self.batches():
                logits = functional_call(self.model, self.completed(prefix), (images,))
                loss = functional.cross_entropy(logits, labels)
                self.adam.zero_grad()
                loss.backward()
                self.adam.step()
                losses.append(loss.detach())
        self.epoch += 1
        accuracy = self.accuracy(prefixes[len(prefixes) - 1].to(self.task.device))
        if accuracy > self.best_accuracy:
            self.best_accuracy = accuracy
            self.best = {name: value.clone() for name, value in self.predictor.state_dict().items()}
        self.log.append(f"{self.epoch},{torch.stack(losses).mean():.6g},{accuracy:.4f}")

    def completed(self, prefix: Tensor) -> dict[str, Tensor]:
        """The model's tensors by name: the prefix, and what is predicted from it."""
        whole = torch.cat([prefix, *self.predictor(prefix)])
        return dict(zip(self.names, unflatten_all(whole, self.shapes)))

    def batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Batches of a random share of each class, with the recipe's augmentation and mixup."""
        labels = self.data.train_labels
        drawn = []
        for own in range(self.data.classes):
            images = (labels == own).nonzero()[:, 0]
            count = max(1, round(self.config.images_share * len(images)))
            drawn.append(images[torch.randperm(len(images), generator=self.stream)[:count]])
        order = torch.cat(drawn)
        order = order[torch.randperm(len(order), generator=self.stream)]
        for chosen in order.split(self.config.images_per_step):
            images = self.data.train_inputs[chosen].to(self.task.device)
            images = augmented(images, self.data.augment, [self.stream])
            pair = self.normalise(images), labels[chosen].to(self.task.device)
            if self.task.recipe.mixup:
                pair = mixup(*pair, self.data.classes, self.task.recipe.mixup, self.stream)
            yield pair

    @torch.no_grad()
    def accuracy(self, prefix: Tensor) -> float:
        """The accuracy of the completed model on the held-out images, in percent."""
        weights = list(self.completed(prefix).values())
        return evaluate(self.model, weights, [], self.data, self.task.dtype).score

    def state(self) -> dict[str, Any]:
        return {
            "predictor": self.predictor.state_dict(),
            "adam": self.adam.state_dict(),
            "epoch": self.epoch,
            "best": self.best,
            "best_accuracy": self.best_accuracy,
            "log": self.log,
        }

    def load(self, state: dict[str, Any]) -> None:
        self.predictor.load_state_dict(state["predictor"])
        self.adam.load_state_dict(state["adam"])
        self.epoch, self.best, self.log = state["epoch"], state["best"], state["log"]
        self.best_accuracy = state["best_accuracy"]
