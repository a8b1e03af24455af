"""The contract of a method: what it may do, and what it may read.

A module in `methods/` defines one class `Method`. The engine owns model, data, learning rate, optimizer
construction, seeds, clocks, metering, evaluation and checkpoints; the method owns what happens between
`backward()` and the next `forward()`. Every hook has a default, and a method that overrides none trains
its workers alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from thinwire.channel import QuietChannel
from thinwire.messages_in_flight import Flight
from thinwire.parameters import Param
from thinwire.run import Run
from thinwire.task import Task


@dataclass(frozen=True)
class Needs:
    """What a method needs; a cell that does not have it is skipped."""

    workers: int = 1
    nodes: int = 1
    optimizers: tuple[str, ...] = ()  # of the recipe, by name; none: any


class Worker(Protocol):
    """A worker of a run that a preparation trains."""

    @property
    def model(self) -> nn.Module:
        """Its replica."""

    @property
    def method(self) -> Any:
        """Its method."""


class Training(Protocol):
    """A run that a preparation trains, as the callbacks of `Job.train` see it."""

    step: int  # steps done
    steps_per_epoch: int

    @property
    def workers(self) -> Sequence[Worker]:
        """All workers of the run."""


class Job(Protocol):
    """What `Method.prepare` may use: a preparation for one model, data set and seed.

    It never sees the test set: its data are the training set. A tenth of that is held out and stands in for
    the test set, for whatever the preparation has to choose.
    """

    task: Task
    model: str  # the name of its module
    scratch: Path  # a folder for what is needed between attempts, and not afterwards

    def train(
        self,
        task: Task,
        method: type[Method],
        config: Any,
        checkpoints: Path,
        after_epoch: Callable[[Training], None] | None = None,
        after_step: Callable[[Training], None] | None = None,
    ) -> Training:
        """Train a method to the end; its traffic is part of the preparation's cost.

        Args:
            task: a variant of `self.task`, with as many workers as wanted.
            method: a class, of a module in methods/.
            config: its options.
            checkpoints: a folder in `scratch`, from which an interrupted preparation goes on.
            after_epoch: called before a checkpoint, which is made at the end of an epoch only: what the
                epoch has brought must be on disk when it returns.
            after_step: called after every step, before that.
        """

    def note(self) -> None:
        """Write down what it has cost so far; call it whenever something is kept for a next attempt."""


class Method:
    """The base of every method. See the hooks below, in the order in which the engine calls them.

    A method speaks to other workers in `forward_ready`, `grad_ready`, `step` and its halves, `epoch_end` and
    `finish`. Before the first step the weights are equal everywhere. A run that goes on from a checkpoint
    sets its method up again, so what was said there would be counted twice. In `evaluated` a method speaks on
    the channel that is handed to it, and on no other. Calls in other places raise a `MethodError`.
    """

    # Options under each of which this method is SSGD, every branch once; `nodes` beside them asks for
    # that many nodes. The contract suite holds the method to each.
    equals_ssgd: ClassVar[list[dict[str, Any]]] = []
    needs: ClassVar[Needs] = Needs()
    # Options under which all phases of the method fit into the contract suite's runs of three epochs of
    # five steps. For methods whose defaults would still be warming up at their end.
    short: ClassVar[dict[str, Any]] = {}
    # Of methods that prepare something, written out, because they are read without running the module: models
    # beside the run's own that the preparation uses; and whether runs that differ in their epochs share it.
    prepares_from_models: ClassVar[tuple[str, ...]] = ()
    prepares_for_any_epochs: ClassVar[bool] = False

    @dataclass
    class Config:
        """The options: typed, each with a default and a comment that says what it is."""

    def __init__(self, config: Any, run: Run) -> None:
        self.config = config
        self.run = run
        self.prepared: Path | None = None  # from `setup` on the folder that `prepare` filled
        self.memory: dict[str, Any] = {}  # tensors and numbers, nested; saved with the run
        self.flight = Flight()  # messages on their way; saved with the run

    @classmethod
    def prepare(cls, config: Any, job: Job, folder: Path) -> None:
        """Fill `folder` once for this model, data set and seed, before any run; a rule of its own.

        To be found it must stand in the module's own class. An interrupted attempt leaves its folder, and the
        next one finds it as it was, as long as options, data and code are the same. `job.train` trains other
        methods, and `job.scratch` is a folder for what is not needed afterwards.
        """

    def skip(self) -> str | None:
        """Why this cell cannot be, in one clause, or None; may look at `config` and `run`, and not speak."""
        return None

    def optimizer(self, params: list[nn.Parameter]) -> torch.optim.Optimizer:
        """The optimizer that `step` uses; may not speak."""
        return self.run.make_optimizer(params)

    def setup(self) -> None:
        """Before the first step, also where a run goes on from a checkpoint; may not speak.

        The weights are equal everywhere. What else the workers must have in common they tell each other in
        the first step.
        """

    def forward_ready(self, param: Param) -> None:
        """Before the layer that uses `param` runs."""

    def grad_ready(self, param: Param) -> None:
        """As soon as the gradient of `param` is there, output side first."""

    def step(self) -> None:
        """After the backward pass, without autograd."""
        self.sync_gradients()
        self.run.optimizer.step()
        self.sync_weights()

    def sync_gradients(self) -> None:
        """Before the optimizer steps."""

    def sync_weights(self) -> None:
        """After the optimizer has stepped."""

    def wants_epoch_loss(self) -> bool:
        """Is `epoch_end` to be called, which costs the workers an exchange of four bytes?"""
        return type(self).epoch_end is not Method.epoch_end

    def epoch_end(self, loss: float) -> None:
        """Once an epoch, with the mean training loss over its steps and all workers."""

    def evaluated(self, quiet: QuietChannel) -> list[Tensor]:
        """The weights that would be shipped now, in the order of `run.params`; training stays as it is.

        Speaks on `quiet` only, which carries nothing outside this hook.
        """
        return quiet.mean(self.run.weights).wait()

    def finish(self) -> None:
        """Training is over: land what is still in flight; may speak, and pays for it."""
