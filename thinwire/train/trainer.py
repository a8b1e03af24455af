"""The loop. One for all methods.

A step has two phases: the gradients of all workers, one worker after the other, and then the methods,
which meet at the channels. Everything that a run is stands in `state()`, so it can be interrupted after
any step and goes on to the same bits.
"""

import copy
import math
import time
from collections.abc import Callable
from dataclasses import asdict, astuple
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from thinwire.clock import CLOCKS, Clock
from thinwire.data.batches import Batches
from thinwire.errors import MethodError
from thinwire.method import Method
from thinwire.optim.schedule import learning_rate
from thinwire.traffic.ledger import Bytes
from thinwire.train.evaluate import evaluate
from thinwire.train.task import Task, initial_model
from thinwire.train.worker import Worker
from thinwire.transport.inprocess import InProcess
from thinwire.transport.transport import Transport

# Losses stay on the device and are looked at together, so that a GPU need not be waited for every step. It is
# then too that processes hear from each other who has been asked to stop: about once a second.
MOST_STEPS_BETWEEN_LOOKS, SECONDS_BETWEEN_LOOKS = 20, 1.0


class Diverged(Exception):
    """A loss or a weight is no longer finite. A result, not an error."""

    def __init__(self, step: int) -> None:
        super().__init__(f"the loss or a weight is not finite after step {step}")
        self.step = step


class Trainer:
    """One run of one method: all of its workers, or those that live in this process."""

    def __init__(
        self, task: Task, method: type[Method], config: Any, transport: Transport | None = None
    ) -> None:
        self.task = task
        transport = InProcess(task.cluster.workers) if transport is None else transport
        self.transport: Transport = transport
        recipe, cluster = task.recipe, task.cluster
        self.batches = Batches(
            task.data,
            cluster.workers,
            recipe.batch_per_worker(cluster.workers),
            task.seed,
            task.device,
            task.dtype,
            recipe.mixup,
            recipe.reading,
            transport.ranks,
        )
        self.steps_per_epoch = self.batches.steps_per_epoch
        self.total_steps = self.steps_per_epoch * recipe.epochs
        self.step = 0
        self.curve: list[dict[str, Any]] = []
        self.traffic: list[dict[str, Any]] = []
        self.clock = Clock(task.device)
        first = initial_model(task)
        self.workers = [
            Worker(
                rank,
                first if rank == transport.ranks[0] else copy.deepcopy(first),
                method,
                config,
                recipe,
                cluster,
                self.steps_per_epoch,
                task.seed,
                transport,
            )
            for rank in transport.ranks
        ]
        # Of the steps not yet looked at: the step, counted from 1, and the losses of this process's workers.
        self._losses: list[tuple[int, list[Tensor]]] = []
        self._steps_between_looks = 1
        self._looked_at = time.perf_counter()
        # The signal that asks this process to stop, and what at the last look was the signal to any of them.
        self.asked_to_stop = 0
        self.stop = 0
        # Did the last step end with a look? And how long has the run been under way, for all processes alike?
        self.looked = False
        self.elapsed_seconds = 0.0
        self._began = time.perf_counter()
        # Sum of the losses over workers and steps since the last evaluation, and their number.
        self._train_loss = [0.0, 0]
        self._announces = method.forward_ready is not Method.forward_ready

    def skip(self) -> str | None:
        """Why this method cannot run here, or None."""
        method, cluster = self.workers[0].method, self.task.cluster
        if cluster.workers < method.needs.workers:
            return f"it needs at least {method.needs.workers} workers"
        if cluster.nodes < method.needs.nodes:
            return f"it needs at least {method.needs.nodes} nodes"
        optimizer, able = self.task.recipe.optimizer.name, method.needs.optimizers
        if able and optimizer not in able:
            return f"it is made for {' and '.join(able)}, and the recipe's optimizer is {optimizer}"
        return method.skip()

    @torch.no_grad()
    def setup(self, prepared: Path | None = None) -> None:
        """Once, before the first step or `load`; `prepared` is what the method's `prepare` has filled."""
        for worker in self.workers:
            worker.method.prepared = prepared
        self._together(Worker.setup)
        self._require_settled()

    @torch.no_grad()
    def train(self, until: int | None = None, after_step: Callable[["Trainer"], None] | None = None) -> None:
        """Train to the end, or until `until` steps are done.

        Args:
            until: stop there, with everything in flight still in flight.
            after_step: called after every step, on the harness clock's time when it does something.

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
                # A method may choke on a NaN before the loss is looked at.
                _require_finite(*self._take_losses())
                raise
            self.clock.switch("harness")
            if after_step is not None:
                after_step(self)

    def _train_step(self) -> None:
        step, task = self.step, self.task
        lr = learning_rate(task.recipe, task.cluster.workers, step, self.steps_per_epoch)
        batches = self.batches.at(step)
        samples = [len(images) for images, _ in batches]
        of_all = sum(samples) * task.cluster.workers // len(samples)
        for worker, own in zip(self.workers, samples):
            worker.begin(step, lr, own, of_all)
        if self._announces:
            self._together(Worker.forward_ready)
        with torch.enable_grad():
            for worker, (images, labels) in zip(self.workers, batches):
                worker.compute_gradients(images, labels)
        self._losses.append((step + 1, [worker.run.loss for worker in self.workers]))
        self._together(Worker.exchange)
        self._require_settled()
        self.step = step + 1
        epoch, into_epoch = divmod(self.step, self.steps_per_epoch)
        self.looked = into_epoch == 0 or len(self._losses) >= self._steps_between_looks
        if self.looked:
            self._look()
        if into_epoch == 0:
            self._end_epoch(epoch)

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
            self._evaluate(epochs)

    @torch.no_grad()
    def shipped(self) -> tuple[list[Tensor], list[Tensor]]:
        """The weights that would be shipped now, and the mean of the floating-point buffers."""
        shipped: tuple[list[Tensor], list[Tensor]] = self._together(Worker.shipped)[0]
        self._require_settled()
        return shipped

    def sent(self) -> dict[str, float]:
        """What has passed so far, in bytes: means over the workers, and the busiest link's."""
        totals = self.transport.share([astuple(worker.ledger.total()) for worker in self.workers])
        return _bytes([Bytes(*total) for total in totals])

    def _evaluate(self, epochs: int) -> None:
        """Score what would be shipped now, and note where the run stands."""
        # What is still on its way costs the training time, as it does where it lands.
        self.transport.arrive()
        self.clock.switch("eval")
        weights, buffers = self.shipped()
        if not all(bool(weight.isfinite().all()) for weight in weights):
            raise Diverged(self.step)
        score = evaluate(
            self.workers[0].model,
            weights,
            buffers,
            self.task.data,
            self.task.dtype,
            self.transport.ranks,
            self.task.cluster.workers,
            self.transport.share,
        )
        self.clock.switch("harness")
        total, count = self._train_loss
        self._train_loss = [0.0, 0]
        self.curve.append(
            {
                "step": self.step,
                "epoch": epochs,
                "samples": self.step * self.task.cluster.workers * self._batch,
                "lr": self.workers[0].run.lr,
                "train_loss": total / count,
                "test_loss": score.loss,
                "test_accuracy_percent": score.accuracy_percent,
                **self.sent(),
                **{f"{name}_seconds": value for name, value in self._seconds().items()},
                **{f"method/{k}": v for k, v in self.workers[0].run.metrics.items()},
            }
        )
        ledgers = self.transport.share([worker.ledger.state() for worker in self.workers])
        for key in dict.fromkeys(key for ledger in ledgers for key in ledger):
            rows = [Bytes(*ledger.get(key, ())) for ledger in ledgers]
            channel, verb, kind = key.split("/")
            self.traffic.append(
                {
                    "step": self.step,
                    "epoch": epochs,
                    "channel": channel,
                    "verb": verb,
                    "kind": kind,
                    "messages": sum(row.messages for row in rows) / len(rows),
                    **_bytes(rows),
                }
            )

    def _seconds(self) -> dict[str, float]:
        """The clocks of the slowest process."""
        clocks = self.transport.share([self.clock.seconds for _ in self.workers])
        return {name: max(clock[name] for clock in clocks) for name in CLOCKS}

    def _take_losses(self) -> tuple[list[int], list[list[float]]]:
        """The steps not yet looked at, and the losses in each of the workers of this process."""
        steps = [step for step, _ in self._losses]
        rows = [torch.stack(losses) for _, losses in self._losses]
        self._losses = []
        return steps, torch.stack(rows).double().tolist() if rows else []

    def _look(self) -> None:
        """Hear from all workers: their losses, and whether somebody was asked to stop."""
        steps, own = self._take_losses()
        now = time.perf_counter()
        taken, self._looked_at = now - self._looked_at, now
        said: list[dict[str, Any]] = [
            {
                "losses": [losses[i] for losses in own],
                "stop": self.asked_to_stop,
                "step_seconds": taken / max(1, len(steps)),
                "elapsed_seconds": now - self._began,
            }
            for i in range(len(self.workers))
        ]
        heard = self.transport.share(said)
        self.transport.check_agreement()
        self.stop = max(worker["stop"] for worker in heard)
        self.elapsed_seconds = max(worker["elapsed_seconds"] for worker in heard)
        if steps:  # a checkpoint is a look, too, and may come right after one
            slowest = max(worker["step_seconds"] for worker in heard)
            wanted = int(SECONDS_BETWEEN_LOOKS / slowest) if slowest else MOST_STEPS_BETWEEN_LOOKS
            self._steps_between_looks = max(1, min(MOST_STEPS_BETWEEN_LOOKS, wanted))
        rows = [list(losses) for losses in zip(*(worker["losses"] for worker in heard))]
        _require_finite(steps, rows)
        for losses in rows:
            for worker, rank in zip(self.workers, self.transport.ranks):
                worker.epoch_loss += losses[rank]
            for loss in losses:
                self._train_loss[0] += loss
                self._train_loss[1] += 1

    def _together(self, turn: Callable[[Worker], Any]) -> list[Any]:
        return self.transport.together([lambda w=w: turn(w) for w in self.workers])  # type: ignore[misc]

    def _require_settled(self) -> None:
        """Every call has met, and every answer was waited for or put in flight."""
        self.transport.check_settled()
        for rank, worker in enumerate(self.workers):
            if left := worker.unclaimed():
                raise MethodError(
                    f"worker {rank} neither waited for {left[0]} nor put it in flight in step {self.step}"
                )

    @property
    def _batch(self) -> int:
        return self.task.recipe.batch_per_worker(self.task.cluster.workers)

    def state(self) -> dict[str, Any]:
        """Everything that the run is after the last step, as a tree for `checkpoint.save`."""
        self._look()
        return {
            "step": self.step,
            "workers": self._together(Worker.state),
            "curve": self.curve,
            "traffic": self.traffic,
            "train_loss": self._train_loss,
            "seconds": self.clock.seconds,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Go on from a saved state; call after `setup`."""
        self.step = state["step"]
        for worker, saved in zip(self.workers, state["workers"]):
            worker.load(saved, self.task.device)
        self.curve, self.traffic = state["curve"], state["traffic"]
        self._train_loss = state["train_loss"]
        self.clock.seconds = dict(state["seconds"])


def _require_finite(steps: list[int], losses: list[list[float]]) -> None:
    for step, row in zip(steps, losses):
        if not all(map(math.isfinite, row)):
            raise Diverged(step)


def _bytes(rows: list[Bytes]) -> dict[str, float]:
    """The ledgers, as means over the workers, and what the busiest link sent."""
    columns = ("payload_push", "payload_pull", "wire_sent", "wire_received", "between_nodes")
    each = [asdict(row) for row in rows]
    means = {f"{c}_bytes": sum(row[c] for row in each) / len(each) for c in columns}
    return means | {"wire_sent_max_bytes": float(max(row["wire_sent"] for row in each))}
