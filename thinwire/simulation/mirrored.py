"""The schedule of a cell, from a few steps of one of its workers; see `thinwire.transport.mirror`.

It runs on the CPU of this machine, with any number of workers. The sizes of ragged payloads, and decisions
that follow from the loss, are those of a worker that trains alone on its part of the data.
"""

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from time import thread_time_ns

import torch
from torch import Tensor

from thinwire import plugins
from thinwire.api.run import Task
from thinwire.base.errors import UserError
from thinwire.base.options import resolve
from thinwire.base.placement import Cluster
from thinwire.config.cell import Cell
from thinwire.data.batches import Batches
from thinwire.optim.recipe import Recipe
from thinwire.simulation.device_clock import DeviceClock
from thinwire.simulation.operations import Role, Step, roles, steps_of
from thinwire.simulation.stand_ins import repeated, task_of_shapes
from thinwire.trace.recorder import RecordedCall, Recorder
from thinwire.traffic.wire_bytes import Ledger
from thinwire.train.cell_task import deterministic
from thinwire.train.evaluation import Diverged
from thinwire.train.preparation_record import preparation_of
from thinwire.train.tracing import record_spans
from thinwire.train.trainer import Trainer
from thinwire.transport.mirror import Mirror

MOST_WORKERS = 4096
# Where the data set is too small for so many workers, it is repeated until an epoch has this many steps.
FEWEST_STEPS_AN_EPOCH = 4
_CPU = torch.device("cpu")


class CannotRun(UserError):
    """The method cannot run on this cluster."""


@dataclass(frozen=True)
class MirroredRun:
    """The first steps of one worker, whose mates were taken to do what it does."""

    worker: int
    steps: list[Step]
    recorder: Recorder
    ledger: Ledger
    parameters: int  # trainable numbers of the model
    steps_per_epoch: int
    total_steps: int  # of the whole run


class MirroredTrainer(Trainer):
    """Trains one worker without its mates; there is nothing to evaluate.

    Whichever worker it is, it sees the images of worker 0.
    """

    def _batches_of(self, ranks: Sequence[int]) -> Batches:
        return super()._batches_of([0])

    def _evaluate(self, epochs: int) -> None:
        pass


class MirroredCell:
    """A cell on a cluster of any size. Its task is loaded once, for any number of its workers."""

    def __init__(
        self,
        cell: Cell,
        results: Path,
        cluster: Cluster,
        load: Callable[[Cell, Path, torch.device], Task] = task_of_shapes,
        clock: DeviceClock | None = None,
        prepared: Path | None = None,
    ) -> None:
        """Load the cell.

        Args:
            cell: its own numbers of workers and nodes are not used.
            results: the folder with its data, if they are there, and its method's preparation.
            cluster: on which it is mirrored.
            load: gives the task of the cell, from the folder, on a device.
            clock: of a described device; None: seconds are those of a core of this machine.
            prepared: the folder of a preparation that takes the place of the cell's own.

        Raises:
            UserError: the preparation is missing, or the number of training images is not known without the
                data, or the method cannot run on this cluster.
        """
        if cluster.workers > MOST_WORKERS:
            raise UserError(
                f"{cluster.workers:,} workers are too many: at most {MOST_WORKERS:,} are mirrored"
            )
        self.cell, self.cluster, self._clock = cell, cluster, clock
        self._method = plugins.get("method", cell.method.use).load()
        self._config = resolve(self._method, cell.method.options)
        self.task, self.repeated = self._load(results, load)
        # What the first worker that runs has learnt of the loss. All others get the same, so that decisions
        # that follow from it are the same, as they are among all workers.
        self._controls: list[Tensor] = []
        trainer = MirroredTrainer(self.task, self._method, self._config, Mirror(cluster.workers, 0))
        if reason := trainer.skip():
            nodes = f"{cluster.nodes} node{'s' if cluster.nodes > 1 else ''}"
            raise CannotRun(
                f"{cell.method.label} cannot run on {cluster.workers:,} workers on {nodes}: {reason}"
            )
        if prepared is None and (preparation := preparation_of(cell, results)) is not None:
            prepared, _ = preparation
        self._prepared = prepared

    def _load(self, results: Path, load: Callable[[Cell, Path, torch.device], Task]) -> tuple[Task, int]:
        """The task, and how many times its data set is repeated."""
        recipe, workers = self.cell.recipe, self.cluster.workers
        try:
            images = workers * recipe.batch_per_worker(workers)
        except ValueError as error:
            raise UserError(
                f"{self.cell.path}: {error}: choose a number of workers that divides it, or a suite "
                "with a batch for each worker (`batch_per: worker`)"
            ) from None
        deterministic(_CPU)
        task = load(self.cell, results, _CPU)
        there = len(task.data.train_inputs)
        enough = there >= images * FEWEST_STEPS_AN_EPOCH
        data = task.data if enough else repeated(task.data, images * FEWEST_STEPS_AN_EPOCH)
        made = replace(task, data=data, recipe=_for_one_worker(task.recipe, workers), cluster=self.cluster)
        return made, len(data.train_inputs) // there

    def run(self, worker: int, steps: int) -> MirroredRun:
        """Run the first steps of a worker; fewer if the whole run has fewer.

        Raises:
            UserError: the method broke the contract, or the worker, which trains alone, diverges.
        """
        mirror = Mirror(self.cluster.workers, worker, self._controls)
        trainer = MirroredTrainer(self.task, self._method, self._config, mirror)
        trainer.setup(self._prepared)
        # The time of this thread on its core: other processes may have taken the core in between.
        (recorder,) = record_spans(trainer, self._clock or thread_time_ns)
        try:
            with _no_garbage_collection(), self._clock or nullcontext():
                trainer.train(until=steps)
        except Diverged as error:
            raise UserError(f"{self.cell.path}: worker {worker}, which trains alone here: {error}") from None
        if len(mirror.controls) > len(self._controls):
            self._controls = mirror.controls
        (own,) = trainer.workers
        return MirroredRun(
            worker=worker,
            steps=steps_of(recorder)[:steps],
            recorder=recorder,
            ledger=own.ledger,
            parameters=sum(param.tensor.numel() for param in own.run.params),
            steps_per_epoch=trainer.steps_per_epoch,
            total_steps=trainer.total_steps,
        )

    def why_too_short(self, steps: int) -> str | None:
        """Why the method could not run here for only so many steps, in one clause, or None."""
        trainer = MirroredTrainer(self.task, self._method, self._config, Mirror(self.cluster.workers, 0))
        trainer.workers[0].run.total_steps = min(steps, trainer.total_steps)
        return trainer.skip()

    def roles(self, steps: int) -> list[tuple[Role, MirroredRun]]:
        """The roles of the cluster in the first steps, each with the run of one of its workers.

        Raises:
            UserError: as `run`; or too many workers differ from each other.
        """
        runs: dict[int, MirroredRun] = {}

        def calls_of(worker: int) -> list[RecordedCall]:
            runs[worker] = self.run(worker, steps)
            return runs[worker].recorder.calls

        return [(role, runs[role.worker]) for role in roles(self.cluster, calls_of)]


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """A full collection takes as long as a hundred small steps, and would be in the time of one of them."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _for_one_worker(recipe: Recipe, workers: int) -> Recipe:
    """The recipe, with the learning rate of the batch of one worker.

    The mates add nothing to what this worker learns, so with a rate for the batch of all it would diverge.
    """
    reference = recipe.optimizer.lr_reference_batch
    if reference is None:
        return recipe
    optimizer = recipe.optimizer.model_copy(update={"lr_reference_batch": reference * workers})
    return recipe.model_copy(update={"optimizer": optimizer})
