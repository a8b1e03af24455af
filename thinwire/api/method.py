"""The contract of a method: what it may do, and what it may read.

A module in `methods/` defines one class `Method`. The engine owns the model, the data, the learning rate, the
seeds, the clocks, the metering, the evaluation and the checkpoints. It also constructs the optimizers. The
method owns what happens between `backward()` and the next `forward()`. Every hook has a default. A method
that overrides no hook trains each worker alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from thinwire.api.channel import UnmeteredChannel
from thinwire.api.declarations import InTheLimit, Needs, Part
from thinwire.api.flight import Flight
from thinwire.api.parameters import Param
from thinwire.api.run import Run, Task

if TYPE_CHECKING:
    from thinwire.api.model import Model


class Worker(Protocol):
    """One worker of a run that a preparation trains."""

    @property
    def model(self) -> Model:
        """Its replica of the model."""

    @property
    def method(self) -> Any:
        """Its instance of the method."""


class Training(Protocol):
    """A run that a preparation trains, as the callbacks of `Job.train` see it."""

    step: int
    """How many steps are done."""
    steps_per_epoch: int
    """Steps in one epoch."""

    @property
    def workers(self) -> Sequence[Worker]:
        """All workers of the run."""


class Job(Protocol):
    """What `Method.prepare` may use. A job belongs to one model, data set and seed.

    A preparation never sees the test set. Its data are the training set, of which a tenth is held out. This
    tenth takes the place of the test set. The preparation makes its own choices on it.
    """

    task: Task
    """The model, the data and the recipe, on one worker."""
    model: str
    """The name of the model's module."""
    scratch: Path
    """A folder for files that the next attempt needs after an interruption; it is deleted at the end."""

    def train(
        self,
        task: Task,
        method: type[Method],
        config: object,
        checkpoints: Path,
        after_epoch: Callable[[Training], None] | None = None,
        after_step: Callable[[Training], None] | None = None,
    ) -> Training:
        """Train a method to the end; its traffic is part of the preparation's cost.

        Args:
            task: a variant of `self.task`, with any number of workers.
            method: a class from a module in `methods/`.
            config: the options of that method.
            checkpoints: a folder in `scratch`, from which an interrupted preparation continues.
            after_epoch: called at the end of every epoch. Checkpoints are written just after this call and at
                no other time. So it must write everything that the epoch has produced to disk.
            after_step: called after every step, before `after_epoch`.
        """

    def note(self) -> None:
        """Record the cost so far. Call this after you have written a file that the next attempt will use."""


@dataclass
class NoOptions:
    """The options of a method that has none."""


class Method:
    """The base class of every method. The hooks are listed in the order in which the engine calls them.

    A *call* is one use of a channel's verb, for example `self.run.world.mean(...)`. Only the hooks of
    training may make calls on `run.world`, `run.node` and `run.across`. They are `forward_ready`,
    `grad_ready`, `step` with `sync_gradients` and `sync_weights`, `epoch_end` and `finish`. The hook
    `evaluated` has a channel of its own. A call in any other hook raises a `MethodError`.

    A hook does nothing by default, unless its description says otherwise.

    Before the first step the weights are equal on all workers. `__init__` and `setup` run again when a run
    continues from a checkpoint. They may make no calls, because these would be counted twice.
    """

    equals_ssgd: ClassVar[list[Mapping[str, object] | InTheLimit]] = []
    """Sets of options; with each of them this method is the same as synchronous SGD (SSGD).

    Together they must reach every branch of the code once. The key `nodes` asks for that many nodes. The key
    `linear` says that the step of the optimizer must be linear in the gradient, as SGD's is: then a mean of
    weights after the step is a step with the mean gradient. The contract suite checks every set, and all
    without `linear` also with AdamW and Muon. A method that comes close to SSGD, but does not reach it,
    declares an `InTheLimit` with a tolerance.
    """
    provenance: ClassVar[tuple[Part, ...]] = ()
    """Where each step of the method comes from; empty: not declared.

    For example `(thinwire.Part("momentum stays local", "ours", "public codes differ"),)`.
    """
    needs: ClassVar[Needs] = Needs()
    """What the method needs to run at all."""
    short: ClassVar[Mapping[str, object]] = {}
    """Options for the runs of the contract suite, which have three epochs of five steps.

    With these options, such a run must reach all phases of the method. Methods need them if, with their
    defaults, they would still be warming up after 15 steps. The check that the method learns has the same
    options, and 15 epochs.
    """
    prepares_from_models: ClassVar[tuple[str, ...]] = ()
    """The names of other models that `prepare` uses besides the run's own.

    Write a literal: it is read without running the module.
    """
    prepares_for_any_epochs: ClassVar[bool] = False
    """Do runs with different numbers of epochs share one preparation? Write a literal here, too."""

    ablations: ClassVar[list[Mapping[str, object]]] = []
    """Sets of options that take a part out of the method, to show what this part is worth.

    With each of them the method is no baseline, even if the suite's baseline uses the same module. Write a
    literal here, too.
    """

    tunes: ClassVar[dict[str, tuple[float, float]]] = {}
    """At most two options that a tuning draws besides the recipe, each with the ends of its range.

    For example `{"clip": (0.1, 10.0)}`. Values are drawn on a logarithmic scale. They are whole numbers if
    both ends are. Name no option that decides how much is sent, because a tuning looks at accuracy first.
    Write a literal here, too.
    """

    tuned_as_ssgd: ClassVar[bool] = False
    """Does the method compute what SSGD computes, whatever its options? Then a tuning gives it SSGD's values.

    The entries of `equals_ssgd` must prove it: the defaults on one node and on two, and each value of each
    option that has a list of values. Write a literal here, too.
    """

    Config: ClassVar[type] = NoOptions
    """The options, a dataclass: each has a type, a default and a comment that says what it is."""

    def __init__(self, config: Any, run: Run) -> None:
        """Called once for each worker, before `skip`; may make no calls.

        Args:
            config: an instance of `Config`, with the options of this run.
            run: what this worker may read, and its channels.
        """
        self.config = config
        """The options of this run."""
        self.run = run
        """What this worker may read, and its channels."""
        self.prepared: Path | None = None
        """The folder that `prepare` has filled; set before `setup`. None if there is no `prepare`."""
        self.memory: dict[str, Any] = {}
        """State that lasts from step to step: tensors and numbers, nested. Checkpoints contain it."""
        self.flight = Flight()
        """Messages that are on their way. Checkpoints contain them."""

    @classmethod
    def prepare(cls, config: Any, job: Job, folder: Path) -> None:
        """Fill `folder`, which all runs on the same model, data set and seed share.

        Called once for each model, data set and seed, before these runs. It has no channels. It may train
        other methods with `job.train`, and it may keep intermediate files in `job.scratch`. An interrupted
        preparation leaves its folder behind. The next attempt finds that folder unchanged if the options, the
        data and the code are still the same. Define the hook in the class `Method` of the module itself, not
        in a base class.

        Args:
            config: an instance of `Config`, with the options of the method.
            job: gives the data without the test set, and trains other methods.
            folder: an empty folder, or what an interrupted attempt has left in it.
        """

    def skip(self) -> str | None:
        """Return the reason, in one clause, why the method cannot run in this cell; None if it can.

        Called after `__init__`. It may read `config` and `run`. It may make no calls.
        """
        return None

    def optimizer(self, params: list[nn.Parameter]) -> torch.optim.Optimizer:
        """Return the optimizer that `step` uses; the default is the recipe's optimizer.

        Called on every worker just before `setup`. It may make no calls.

        Args:
            params: the trainable parameters, from the input side to the output side.
        """
        return self.run.make_optimizer(params)

    def setup(self) -> None:
        """Create the state of this worker.

        Called before the first step, and again when a run continues from a checkpoint. In that case the saved
        `memory` and `flight` are restored afterwards. It may read `run` and `prepared`. It may make no calls.
        If workers need anything else in common besides the weights, they exchange it in the first step.
        """

    def wants_gradient(self, param: Param) -> bool:
        """Return whether this worker uses the gradient of `param`; otherwise it is not computed.

        Called after `setup`; may make no calls. The other gradients are the same to the bit, and times do not
        contain what nobody needs. A gradient that is not computed reads as zeros. The default is that all
        gradients are used.
        """
        return True

    def forward_ready(self, param: Param) -> None:
        """Called before the layer that uses `param` runs; the input side comes first. May make calls."""

    def grad_ready(self, param: Param) -> None:
        """Called when the gradient of `param` is complete; the output side comes first. May make calls."""

    def step(self) -> None:
        """Exchange gradients, step the optimizer, exchange weights.

        Called in every step after the backward pass, with autograd disabled. It may make calls. Most methods
        override only `sync_gradients` or `sync_weights`.
        """
        self.sync_gradients()
        self.run.optimizer.step()
        self.sync_weights()

    def sync_gradients(self) -> None:
        """Called by `step` before the optimizer steps; may make calls, and may change the gradients."""

    def sync_weights(self) -> None:
        """Called by `step` after the optimizer has stepped; may make calls, and may change the weights."""

    def wants_epoch_loss(self) -> bool:
        """Return whether `epoch_end` is to be called now; all workers must return the same.

        Called at the end of every epoch. It may make no calls. Before each `epoch_end`, the workers average
        the loss, which is metered as a mean of four bytes.
        """
        return type(self).epoch_end is not Method.epoch_end

    def epoch_end(self, loss: float) -> None:
        """Called at the end of an epoch if `wants_epoch_loss()`; may make calls.

        Args:
            loss: the mean training loss over the steps of this epoch and over all workers.
        """

    def evaluated(self, unmetered: UnmeteredChannel) -> list[Tensor]:
        """Return the weights that would be delivered if training ended now, in the order of `run.params`.

        Called at every evaluation. It may make calls on `unmetered` only. It may change neither the weights
        nor any other state: training continues as if the evaluation had not happened. The default is the mean
        of the weights over all workers.

        Args:
            unmetered: a channel of all workers that is not metered; it is closed outside this hook.
        """
        return unmetered.mean(self.run.weights).wait()

    def finish(self) -> None:
        """Receive what is still in flight.

        Called once, after the last step and before the last evaluation. It may make calls, which are metered.
        Afterwards `flight` must be empty.
        """
