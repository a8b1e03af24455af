"""Small tasks on real digits, for tests of the engine and of the methods."""

from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

from thinwire import plugins
from thinwire.cluster import Cluster
from thinwire.data.arrays import Data
from thinwire.data.augment import Augment
from thinwire.optim.recipe import Recipe
from thinwire.options import resolve
from thinwire.train.task import Task
from thinwire.train.trainer import Trainer


class Net(nn.Module):
    """A few parameters of every kind: convolution, batch norm, dropout, linear."""

    def __init__(self, dropout: float = 0.2) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 3, 3, stride=2)
        self.norm = nn.BatchNorm2d(3)
        self.dropout = nn.Dropout(dropout)
        self.linear = nn.Linear(27, 10)

    def forward(self, images: Tensor) -> Tensor:
        maps = self.norm(self.conv(images)).relu()
        return self.linear(self.dropout(maps.flatten(1)))


@cache
def digits(train: int = 120, test: int = 50, pad: int = 0) -> Data:
    """The first images of digits."""
    raw = plugins.get("dataset", "digits").load()().fetch(None, None)
    return Data(
        name="digits",
        classes=10,
        shape=(1, 8, 8),
        augment=Augment(pad=pad, flip=bool(pad)),
        mean=(73.0,),
        std=(90.0,),
        train_images=torch.from_numpy(raw.train_images[:train].copy()),
        train_labels=torch.from_numpy(raw.train_labels[:train].astype("int64")),
        test_images=torch.from_numpy(raw.test_images[:test].copy()),
        test_labels=torch.from_numpy(raw.test_labels[:test].astype("int64")),
        checksums={},
    )


def recipe(**changes: Any) -> Recipe:
    """Momentum, weight decay, warm-up and a drop of the learning rate, in three epochs."""
    content: dict[str, Any] = {
        "epochs": 3,
        "batch": 24,
        "batch_per": "run",
        "optimizer": {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.01},
        "schedule": {"name": "step", "warmup_epochs": 0.4, "milestones": [2]},
    }
    return Recipe.model_validate(content | changes)


def task(workers: int = 4, nodes: int = 1, dtype: torch.dtype = torch.float64, **changes: Any) -> Task:
    """A small task; `changes` go to `Task`, or to the recipe."""
    fields = {name: changes.pop(name) for name in ("data", "build_model", "seed") if name in changes}
    defaults: dict[str, Any] = {"data": digits(pad=1), "build_model": Net, "seed": 5}
    return Task(
        recipe=recipe(**changes),
        cluster=Cluster(workers, nodes),
        dtype=dtype,
        **(defaults | fields),
    )


def trainer(task: Task, method: Any, **options: Any) -> Trainer:
    """A run that is set up; `method` is a class, or the name of a module in methods/."""
    method = plugins.get("method", method).load() if isinstance(method, str) else method
    made = Trainer(task, method, resolve(method, options))
    made.setup()
    return made


def everything(trainer: Trainer) -> Any:
    """The state of a run but for its clocks, with tensors as bytes, to compare bit for bit."""
    return _frozen(trainer.state())


def _frozen(tree: Any) -> Any:
    if isinstance(tree, Tensor):
        return (str(tree.dtype), tuple(tree.shape), tree.numpy().tobytes())
    if isinstance(tree, dict):
        return {k: _frozen(v) for k, v in tree.items() if not str(k).endswith("seconds")}
    if isinstance(tree, list | tuple):
        return [_frozen(value) for value in tree]
    return tree
