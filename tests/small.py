"""Small tasks on real digits, for tests of the engine and of the methods."""

import atexit
import hashlib
import shutil
import tempfile
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

from tests import processes
from thinwire import plugins
from thinwire.api.run import Task
from thinwire.base.learning import NEXT_CHARACTER
from thinwire.base.options import resolve
from thinwire.base.placement import Cluster
from thinwire.data.arrays import Data
from thinwire.data.dataset import Augment
from thinwire.optim.recipe import Recipe
from thinwire.records import checkpoint
from thinwire.records.result import Cost, Traffic
from thinwire.train.preparation import PreparationJob
from thinwire.train.trainer import Trainer
from thinwire.transport.inprocess import InProcess
from thinwire.transport.interface import Transport


class Plain(nn.Module):
    """Convolutions in three stages and a linear layer, without batch norm."""

    task = "classification"

    def __init__(self, dropout: float = 0.2) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 4, 3, padding=1)
        self.second = nn.Conv2d(4, 6, 3, stride=2)
        self.third = nn.Conv2d(6, 8, 2)
        self.dropout = nn.Dropout(dropout)
        self.linear = nn.Linear(32, 10)

    def forward(self, images: Tensor) -> Tensor:
        maps = self.third(self.second(self.first(images).relu()).relu()).relu()
        return self.linear(self.dropout(maps.flatten(1)))

    def stages(self) -> list[list[nn.Module]]:
        return [[self.first], [self.second], [self.third], [self.linear]]


class Net(nn.Module):
    """A few parameters of every kind: convolution, batch norm, dropout, linear."""

    task = "classification"

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
        train_inputs=torch.from_numpy(raw.train_inputs[:train].copy()),
        train_labels=torch.from_numpy(raw.train_labels[:train].astype("int64")),
        test_inputs=torch.from_numpy(raw.test_inputs[:test].copy()),
        test_labels=torch.from_numpy(raw.test_labels[:test].astype("int64")),
        checksums={},
    )


CHARACTERS, CONTEXT = 7, 5


@cache
def texts(train: int = 24, test: int = 13) -> Data:
    """Windows of random characters."""
    stream = torch.Generator().manual_seed(0)
    rows = torch.randint(CHARACTERS, (train + test, CONTEXT + 1), generator=stream)
    inputs, labels = rows[:, :-1].byte(), rows[:, 1:]
    return Data(
        name="text",
        classes=CHARACTERS,
        shape=(CONTEXT,),
        augment=Augment(),
        mean=(),
        std=(),
        train_inputs=inputs[:train],
        train_labels=labels[:train],
        test_inputs=inputs[train:],
        test_labels=labels[train:],
        checksums={},
        task=NEXT_CHARACTER,
    )


def gpt() -> nn.Module:
    """The decoder at its smallest, for these windows."""
    model = plugins.get("model", "gpt").load()
    return model(model.Config(width=8, depth=1, heads=2), (CONTEXT,), CHARACTERS)


def recipe(**changes: Any) -> Recipe:
    """A recipe with momentum, weight decay, warm-up, and a drop of the rate after two epochs."""
    drop: dict[str, Any] = {"name": "step", "milestones": [2]}
    if changes.get("epochs", 3) <= 2:
        drop = {"name": "constant"}
    content: dict[str, Any] = {
        "epochs": 3,
        "batch": 24,
        "batch_per": "run",
        "optimizer": {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.01},
        "schedule": {"warmup_epochs": 0.4, **drop},
    }
    return Recipe.model_validate(content | changes)


def task(workers: int = 4, nodes: int = 1, dtype: torch.dtype = torch.float64, **changes: Any) -> Task:
    """A small task; `changes` go to `Task`, or to the recipe."""
    fields = {
        name: changes.pop(name) for name in ("data", "build_model", "seed", "device") if name in changes
    }
    defaults: dict[str, Any] = {"data": digits(pad=1), "build_model": Net, "seed": 5}
    return Task(recipe=recipe(**changes), cluster=Cluster(workers, nodes), dtype=dtype, **(defaults | fields))


def recipe_for(method: Any) -> dict[str, Any]:
    """Changes of the recipe for a method that does not work with SGD: the first optimizer that it names."""
    name = method.needs.optimizer_without_sgd()
    return {} if name is None else {"optimizer": {"name": name, "lr": 0.001, "weight_decay": 0.01}}


def trainer(task: Task, method: Any, **options: Any) -> Trainer:
    """A run that is set up; `method` is a class, or the name of a module in methods/.

    This process has all its workers, or one of them if it is one of several connected processes.
    """
    method = plugins.get("method", method).load() if isinstance(method, str) else method
    config = resolve(method, options)
    made = Trainer(task, method, config, transport(task.cluster))
    made.setup(prepared(task, method, config))
    return made


def transport(cluster: Cluster) -> Transport:
    """The transport between the workers in this process, or between this process and the others."""
    return processes.transport(cluster) if dist.is_initialized() else InProcess(cluster.workers)


def skip(task: Task, method: Any, **options: Any) -> str | None:
    """Why this method skips such a task, or None. Nothing is prepared to find that out."""
    return Trainer(task, method, resolve(method, options)).skip()


def model_for(method: Any, **options: Any) -> Any:
    """A small model on which this method runs.

    With Adam it has no batch norm: the bias before it has a gradient of rounding errors, which Adam enlarges.
    """
    several = Cluster(max(4, method.needs.workers), max(2, method.needs.nodes))
    changes = recipe_for(method)
    for model in (Plain,) if changes else (Net, Plain):
        found = task(several.workers, several.nodes, build_model=model, **changes)
        if skip(found, method, **options) is None:
            return model
    return Net


def prepared(task: Task, method: Any, config: Any) -> Path | None:
    """The method's preparation for such a task, made once."""
    if "prepare" not in vars(method):
        return None
    data = (task.data.name, len(task.data.train_inputs))
    key = (method, repr(config), data, task.build_model, task.seed, task.recipe, task.dtype)
    if key not in _PREPARED:
        _PREPARED[key] = processes.once(lambda: _prepare(task, method, config))
    return _PREPARED[key]


def _prepare(task: Task, method: Any, config: Any) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="thinwire-prepared-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    method.prepare(config, preparation_job(task, folder), folder)
    return folder


def preparation_job(task: Task, folder: Path, model: str = "none", every: float = 60.0) -> PreparationJob:
    """The job of a preparation that begins in `folder`, and saves after `every` seconds."""
    folder.mkdir(exist_ok=True)
    nothing = Cost(seconds=0.0, traffic=Traffic.sum([]))
    return PreparationJob(task, model, folder, nothing, lambda cost: None, every)


_PREPARED: dict[Any, Path] = {}


def resumed(make: Callable[[], Trainer], until: int, folder: Path) -> Trainer:
    """A run that went on from a checkpoint after so many steps, to the bits of one that did not stop."""
    whole, first, second = (make() for _ in range(3))
    whole.train()
    first.train(until=until)
    checkpoint.save(folder, until, first.state())
    second.load(checkpoint.latest(folder, warn=pytest.fail))
    second.train()
    assert everything(second) == everything(whole)
    return second


def flat(tensors: Iterable[Tensor]) -> Tensor:
    """All entries as one vector."""
    return torch.cat([tensor.flatten() for tensor in tensors])


def everything(trainer: Trainer) -> Any:
    """This process's state of a run, except clocks, with tensors as bytes, to compare bit for bit."""
    return _frozen(trainer.state())


def digest(tree: Any) -> str:
    """A digest with which trees of tensors are compared bit for bit, also in different processes."""
    return hashlib.sha256(repr(_frozen(tree)).encode()).hexdigest()


def _frozen(tree: Any) -> Any:
    if isinstance(tree, Tensor):
        as_bytes = tree.contiguous().flatten().view(torch.uint8)  # NumPy does not have all types of torch
        return (str(tree.dtype), tuple(tree.shape), as_bytes.numpy().tobytes())
    if isinstance(tree, dict):
        return {k: _frozen(v) for k, v in tree.items() if not str(k).endswith("seconds")}
    if isinstance(tree, list | tuple):
        return [_frozen(value) for value in tree]
    return tree if tree == tree else "NaN"
