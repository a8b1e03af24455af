"""The training loop, which all methods share.

A step has two phases. First all workers compute their gradients, one worker after the other. Then the methods
exchange data over the channels. `state()` holds everything that a run needs, so that it can be interrupted
after any step and resumes to the same bits.
"""

import copy
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from thinwire.api.method import Method
from thinwire.api.parameters import parameters
from thinwire.api.run import Task, initial_model
from thinwire.base.errors import MethodError, UserError
from thinwire.base.placement import on_gpu
from thinwire.data.batches import Batches, Prefetched
from thinwire.optim.recipe import learning_rate
from thinwire.train import evaluation
from thinwire.train.clock import CLOCKS, clock_on
from thinwire.train.evaluation import evaluate, require_finite_weights
from thinwire.train.passes import Passes
from thinwire.train.status import StatusExchange
from thinwire.train.worker import Worker
from thinwire.transport.inprocess import InProcess
from thinwire.transport.interface import Transport


def warm_up(model: nn.Module, inputs: Tensor, labels: Tensor, passes: Passes) -> None:
    """Run the passes of a step on a GPU with a copy of the model, and wait for their end.

    The first pass loads the kernels of cuDNN and cuBLAS, which takes seconds.
    """
    with torch.enable_grad():
        passes.loss(copy.deepcopy(model), inputs, labels).backward()
    torch.cuda.synchronize(inputs.device)


T = TypeVar("T")


class Trainer:
    """One run of one method, with all of its workers, or with those that live in this process."""

    def __init__(
        self, task: Task, method: type[Method], config: object, transport: Transport | None = None
    ) -> None:
        self.task = task
        self.transport: Transport = transport or InProcess(task.cluster.workers)
        recipe, cluster = task.recipe, task.cluster
        self._batch = recipe.batch_per_worker(cluster.workers)
        batches = self._batches_of(self.transport.ranks)
        self.steps_per_epoch = batches.steps_per_epoch
        self.partition = batches.partition
        self.total_steps = self.steps_per_epoch * recipe.epochs
        self.batches = Prefetched(batches, self.total_steps) if recipe.prefetch else batches
        self.step = 0
        self.curve: list[dict[str, float]] = []
        self.traffic: list[dict[str, object]] = []
        self.clock = clock_on(task.device)
        self.around_evaluation: Callable[[], AbstractContextManager[None]] = nullcontext
        self.doing: Callable[[str], None] = lambda what: None  # called with what takes long beside the steps
        first = initial_model(task)
        if recipe.optimizer.name == "muon" and not any(param.hidden for param in parameters(first)):
            raise UserError(
                "the recipe's optimizer is muon, but the model has no hidden matrices: no weights of "
                "convolutions or linear layers before the last layer: take adamw"
            )
        if on_gpu(task.device):
            inputs, labels = self.batches.at(0)[0]
            size = len(inputs) // recipe.accumulate
            warm_up(first, inputs[:size], labels[:size], Passes(recipe, task.device))
        self.workers = [
            Worker(
                rank,
                first if rank == self.transport.ranks[0] else copy.deepcopy(first),
                method,
                config,
                task,
                self.steps_per_epoch,
                self.transport,
            )
            for rank in self.transport.ranks
        ]
        self._ledgers = [worker.ledger for worker in self.workers]
        self.status = StatusExchange(self.workers, self.transport)
        self.status_is_new = False  # did the last step end with an exchange of status?
        self._uses_forward_ready = method.forward_ready is not Method.forward_ready

    def _batches_of(self, ranks: Sequence[int]) -> Batches:
        task, recipe = self.task, self.task.recipe
        return Batches(
            task.data,
            task.cluster.workers,
            self._batch,
            task.seed,
            task.device,
            task.dtype,
            recipe.mixup,
            recipe.reading,
            ranks,
            recipe.partition,
            recipe.epoch_steps,
        )

    def skip(self) -> str | None:
        """Why the method cannot run on this cluster with this recipe, in one clause; None if it can."""
        method, cluster = self.workers[0].method, self.task.cluster
        needs, own = method.needs, self.task.recipe.optimizer.name
        if cluster.workers < needs.workers:
            return f"it needs at least {needs.workers} workers"
        if cluster.nodes < needs.nodes:
            return f"it needs at least {needs.nodes} nodes"
        if not needs.works_with(own):
            return f"it is made for {' and '.join(needs.optimizers)}, and the recipe's optimizer is {own}"
        return method.skip()

    @torch.no_grad()
    def setup(self, prepared: Path | None = None) -> None:
        """Set up the workers, once, before the first step or `load`; `prepare` has filled the folder."""
        for worker in self.workers:
            worker.method.prepared = prepared
        self._together(Worker.setup)
        self._require_settled()

    @torch.no_grad()
    def train(self, until: int | None = None, after_step: Callable[["Trainer"], None] | None = None) -> None:
        """Train to the end, or until so many steps are done; messages in flight stay in flight.

        The time of `after_step`, which is called after every step, counts as the harness's.

        Raises:
            Diverged: a loss or a weight is no longer finite.
            MethodError: the method broke the contract.
        """
        end = self.total_steps if until is None else min(until, self.total_steps)
        while self.step < end:
            self.clock.switch("train")
            try:
                self._train_step()
            except Exception:
                # A NaN can make a method fail before the losses are exchanged.
                self.status.require_finite()
                raise
            self.clock.switch("harness")
            if after_step is not None:
                after_step(self)

    def _train_step(self) -> None:
        step, task = self.step, self.task
        lr = learning_rate(task.recipe, task.cluster.workers, step, self.steps_per_epoch)
        if (plateau := self.workers[0].plateau) is not None:
            lr *= plateau.scale  # of losses that all workers have in common
        batches = self.batches.at(step)
        samples = [len(inputs) for inputs, _ in batches]
        world_samples = sum(samples) * task.cluster.workers // len(samples)
        for worker, own in zip(self.workers, samples):
            worker.begin(step, lr, own, world_samples)
        if self._uses_forward_ready:
            self._together(Worker.forward_ready)
        with torch.enable_grad():
            for worker, (inputs, labels) in zip(self.workers, batches):
                worker.compute_gradients(inputs, labels)
        self.status.add(step + 1)
        self._together(Worker.exchange)
        self._require_settled()
        self.step = step + 1
        epoch, into_epoch = divmod(self.step, self.steps_per_epoch)
        self.status_is_new = into_epoch == 0 or self.status.is_time()
        if self.status_is_new:
            self._exchange_status()
        if into_epoch == 0:
            self.clock.switch("train")
            self._end_epoch(epoch)

    def _exchange_status(self) -> None:
        self.clock.switch("harness")
        if self.status.exchange(self.clock.read()["train"]):
            # Otherwise, what travelled for the method meanwhile would have taken no time.
            self.clock.rename("train")

    def _end_epoch(self, epochs: int) -> None:
        self._together(Worker.epoch_end)
        self._require_settled()
        for worker in self.workers:
            worker.epoch_loss = 0.0
        last = self.step == self.total_steps
        if last:
            self._together(lambda worker: worker.method.finish())
            self._require_settled()
            if any(len(worker.method.flight) for worker in self.workers):
                raise MethodError("training is over and messages are still in flight: land them in finish()")
        if last or epochs % self.task.recipe.evaluate_every_epochs == 0:
            # Waiting for messages that are still on their way counts as training, as it does in a step.
            self.transport.arrive()
            self.clock.switch("eval")
            with self.around_evaluation():
                self._evaluate(epochs)

    @torch.no_grad()
    def shipped(self) -> tuple[list[Tensor], list[Tensor]]:
        """The weights to ship now, and the means of the floating-point buffers over the workers."""
        shipped: tuple[list[Tensor], list[Tensor]] = self._together(Worker.shipped)[0]
        self._require_settled()
        return shipped

    def sent(self) -> dict[str, float]:
        """The traffic so far, in bytes."""
        return evaluation.traffic_totals(self._ledgers, self.transport)

    def _evaluate(self, epochs: int) -> None:
        """Score the weights that would be shipped now, and add a row to the curve."""
        weights, buffers = self.shipped()
        require_finite_weights(self.step, weights)
        score = evaluate(
            self.workers[0].model,
            weights,
            buffers,
            self.task.data,
            self.task.dtype,
            self.transport.ranks,
            self.task.cluster.workers,
            self.transport.share,
            lambda: self.doing("evaluates"),
        )
        self.clock.switch("harness")
        self.curve.append(
            {
                "step": self.step,
                "epoch": epochs,
                "samples": self.step * self.task.cluster.workers * self._batch,
                "lr": self.workers[0].run.lr,
                "train_loss": self.status.take_mean_loss(),
                "test_loss": score.loss,
                self.task.data.task.test_column: score.score,
                **self.sent(),
                **{f"{name}_seconds": value for name, value in self._seconds().items()},
                **{f"method/{k}": v for k, v in self.workers[0].run.metrics.items()},
            }
        )
        place = {"step": self.step, "epoch": epochs}
        self.traffic += [{**place, **row} for row in evaluation.traffic_rows(self._ledgers, self.transport)]

    def _seconds(self) -> dict[str, float]:
        """Of each clock, the seconds of the slowest process."""
        clocks = self.transport.share([self.clock.read() for _ in self.workers])
        return {name: max(clock[name] for clock in clocks) for name in CLOCKS}

    def _together(self, function: Callable[[Worker], T]) -> list[T]:
        return self.transport.together([lambda w=w: function(w) for w in self.workers])  # type: ignore[misc]

    def _require_settled(self) -> None:
        """Require that all calls are complete, and that each result was waited for or put in flight."""
        self.transport.check_settled()
        for rank, worker in zip(self.transport.ranks, self.workers):
            if left := worker.unclaimed():
                raise MethodError(
                    f"worker {rank} neither waited for {left[0]} nor put it in flight in step {self.step}"
                )

    def state(self) -> dict[str, object]:
        """Everything that the run needs to resume after the last step, as a tree for `checkpoint.save`."""
        self.clock.switch("train")
        self.transport.arrive()  # which counts as training, as it does before an evaluation
        self._exchange_status()
        return {
            "step": self.step,
            "workers": self._together(Worker.state),
            "curve": self.curve,
            "traffic": self.traffic,
            "train_loss": self.status.train_loss,
            "seconds": self.clock.read(),
        }

    def meet(self) -> None:
        """Wait for the other processes, so that none waits in its next step for one that is still busy."""
        self._exchange_status()

    def load(self, state: dict[str, Any]) -> None:
        """Resume from a saved state; call after `setup`."""
        self.step = state["step"]
        for worker, saved in zip(self.workers, state["workers"]):
            worker.load(saved, self.task.device)
        self.curve, self.traffic = state["curve"], state["traffic"]
        self.status.train_loss = state["train_loss"]
        self.clock.load(state["seconds"])
