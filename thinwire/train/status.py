"""All workers exchange their status about once a second: their losses, and whether one was asked to stop.

Losses stay on the device until then, so that the steps between do not wait for a GPU. Each exchange settles
after how many steps the next one comes, from what a step has taken on the slowest worker. So all workers
agree on it, and no step has to ask.
"""

import time
from collections.abc import Sequence
from typing import TypedDict

import torch
from torch import Tensor

from thinwire.train.evaluation import require_finite_losses
from thinwire.train.worker import Worker
from thinwire.transport.interface import Transport

SECONDS_BETWEEN = 1.0
# So that not too many losses wait.
MOST_STEPS_BETWEEN = 1000


class _Status(TypedDict):
    """Of one worker; see `StatusExchange`."""

    losses: list[float]
    stop: int
    step_seconds: float
    elapsed_seconds: float
    travels: bool


class StatusExchange:
    """The status of all workers at the last exchange."""

    def __init__(self, workers: Sequence[Worker], transport: Transport) -> None:
        self._workers, self._transport = workers, transport
        # For each step since the last exchange: its number, from 1, and the losses of the workers here.
        self._losses: list[tuple[int, list[Tensor]]] = []
        self._steps_between = 1
        self._train_seconds = 0.0  # of this process, until the last exchange
        self._began = time.perf_counter()
        self.asked_to_stop = 0  # the signal that asked this process to stop, or 0
        self.stop = 0  # the signal that had asked any process to stop at the last exchange, or 0
        self.elapsed_seconds = 0.0  # of this attempt, at the last exchange; equal in all processes
        # Sum of the losses over workers and steps since the last evaluation, and their number.
        self.train_loss: list[float] = [0.0, 0]

    def add(self, step: int) -> None:
        """Keep the losses of a step, counted from 1."""
        self._losses.append((step, [worker.run.loss for worker in self._workers]))

    def is_time(self) -> bool:
        """Have as many steps passed as fit into a second?"""
        return len(self._losses) >= self._steps_between

    def require_finite(self) -> None:
        """Raise `Diverged` if a loss of this process is not finite; after an error, which a NaN can cause."""
        require_finite_losses(*self._take_losses())

    def exchange(self, train_seconds: float) -> bool:
        """Exchange the status with all workers; `train_seconds` are those of this process so far.

        Returns:
            Did messages of any worker travel meanwhile?

        Raises:
            Diverged: a loss is not finite.
            MethodError: the workers have not made the same calls.
        """
        steps, own = self._take_losses()
        taken, self._train_seconds = train_seconds - self._train_seconds, train_seconds
        statuses: list[_Status] = self._transport.share(
            [
                {
                    "losses": [losses[i] for losses in own],
                    "stop": self.asked_to_stop,
                    "step_seconds": taken / max(1, len(steps)),
                    "elapsed_seconds": time.perf_counter() - self._began,
                    "travels": self._transport.travels(),
                }
                for i in range(len(self._workers))
            ]
        )
        self._transport.check_agreement()
        self.stop = max(status["stop"] for status in statuses)
        self.elapsed_seconds = max(status["elapsed_seconds"] for status in statuses)
        if steps:  # none if a checkpoint, which begins with an exchange, follows another one
            slowest = max(status["step_seconds"] for status in statuses)
            wanted = SECONDS_BETWEEN / slowest if slowest else MOST_STEPS_BETWEEN
            # At most twice as many as before, because a few steps tell little of those that follow.
            self._steps_between = max(1, min(MOST_STEPS_BETWEEN, 2 * self._steps_between, int(wanted)))
        rows = [list(losses) for losses in zip(*(status["losses"] for status in statuses))]
        require_finite_losses(steps, rows)
        for losses in rows:
            for worker, rank in zip(self._workers, self._transport.ranks):
                worker.epoch_loss += losses[rank]
            for loss in losses:
                self.train_loss[0] += loss
                self.train_loss[1] += 1
        return any(status["travels"] for status in statuses)

    def take_mean_loss(self) -> float:
        """The mean training loss since the last evaluation, over all workers and steps; a new mean begins."""
        total, count = self.train_loss
        self.train_loss = [0.0, 0]
        return total / count

    def _take_losses(self) -> tuple[list[int], list[list[float]]]:
        """The steps since the last exchange, and the losses in each of the workers of this process."""
        steps = [step for step, _ in self._losses]
        losses = [loss for _, losses in self._losses for loss in losses]
        self._losses = []
        return steps, torch.stack(losses).view(len(steps), -1).double().tolist() if losses else []
