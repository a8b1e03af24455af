"""What a method may use while it prepares: data without the test set, and runs of other methods."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from thinwire import checkpoint, record
from thinwire.data.batches import held_out
from thinwire.errors import MethodError
from thinwire.method import Job, Method, Training
from thinwire.task import Task
from thinwire.train.preparation_record import SCRATCH
from thinwire.train.trainer import Trainer
from thinwire.worker_placement import Cluster


class PreparationJob(Job):
    """A preparation for one model, data set and seed."""

    def __init__(
        self,
        task: Task,
        model: str,
        folder: Path,
        spent: record.Cost,
        note: Callable[[record.Cost], None],
        checkpoint_every_seconds: float,
    ) -> None:
        self.task = replace(task, cluster=Cluster(1), data=held_out(task.data))
        self.model = model
        self.scratch = folder / SCRATCH
        self._spent = spent
        self._note = note
        self._began = time.monotonic()
        self._trainers: list[Trainer] = []
        self._checkpoint_every = checkpoint_every_seconds

    def train(
        self,
        task: Task,
        method: type[Method],
        config: object,
        checkpoints: Path,
        after_epoch: Callable[[Training], None] | None = None,
        after_step: Callable[[Training], None] | None = None,
    ) -> Training:
        trainer = Trainer(task, method, config)
        if reason := trainer.skip():
            raise MethodError(f"the run that it prepares from is not possible: {reason}")
        trainer.setup()
        self._trainers.append(trainer)
        saved = checkpoint.latest(checkpoints, warn=print)
        if saved is not None:
            trainer.load(saved)
        saved_at = time.monotonic()

        def after_each_step(trainer: Trainer) -> None:
            nonlocal saved_at
            if after_step is not None:
                after_step(trainer)
            if trainer.step % trainer.steps_per_epoch:
                return
            if after_epoch is not None:
                after_epoch(trainer)
            if trainer.step == trainer.total_steps or time.monotonic() - saved_at >= self._checkpoint_every:
                checkpoint.save(checkpoints, trainer.step, trainer.state())
                self.note()
                saved_at = time.monotonic()

        trainer.train(after_step=after_each_step)
        return trainer

    def note(self) -> None:
        self._note(self.cost())

    def cost(self) -> record.Cost:
        """What earlier attempts and this one have cost.

        Seconds are summed over the attempts, and traffic over the runs: of each run, the mean over its
        workers. A run that was resumed knows its traffic until the checkpoint, so repeated steps count once.
        """
        seconds = self._spent.seconds + time.monotonic() - self._began
        sent = [trainer.sent() for trainer in self._trainers]
        return record.Cost(seconds=seconds, traffic=record.Traffic.sum(sent))
