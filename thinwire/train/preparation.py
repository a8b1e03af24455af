"""Lets a method prepare before its runs, once for each model, data set and seed.

A preparation that fails is published too. The runs that need it fail with its reason.
"""

import os
import time
import traceback
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError

from thinwire import plugins
from thinwire.api.method import Job, Method, Training
from thinwire.api.run import Task
from thinwire.base import digests
from thinwire.base.errors import MethodError, UserError, printable
from thinwire.base.files import locked, writing
from thinwire.base.options import problems, resolve
from thinwire.base.placement import Cluster
from thinwire.config.cell import Cell, sources
from thinwire.data.arrays import held_out
from thinwire.records import checkpoint, record
from thinwire.records.provenance import Span, now, provenance
from thinwire.records.result import Cost, Schema, Traffic
from thinwire.train.cell_task import blame, deterministic, device_of, require_precision, task_of
from thinwire.train.passes import Passes
from thinwire.train.preparation_record import (
    PROGRESS,
    SCRATCH,
    Prepared,
    digests_of,
    finished,
    identity_of,
    publish_prepared,
)
from thinwire.train.result_files import prepared_folder, preparing_folder
from thinwire.train.trainer import Trainer
from thinwire.transport.device import make_current


class PreparationJob(Job):
    """A preparation for one model, data set and seed."""

    def __init__(
        self,
        task: Task,
        model: str,
        folder: Path,
        spent: Cost,
        note: Callable[[Cost], None],
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

    def cost(self) -> Cost:
        """What earlier attempts and this one have cost.

        Seconds are summed over the attempts, and traffic over the runs: of each run, the mean over its
        workers. A run that was resumed knows its traffic until the checkpoint, so repeated steps count once.
        """
        seconds = self._spent.seconds + time.monotonic() - self._began
        sent = [trainer.sent() for trainer in self._trainers]
        return Cost(seconds=seconds, traffic=Traffic.sum(sent))


class _Progress(Schema):
    """The content of `progress.json`, without its own digest."""

    identity: dict[str, str]
    cost: Cost


def prepare(cell: Cell, results: Path, checkpoint_every_seconds: float) -> Prepared:
    """Let the method of a cell prepare, and publish what it made.

    An interrupted attempt leaves its folder behind. The next attempt finds it unchanged, if options, data
    and code are the same.

    Raises:
        UserError: it failed for a reason outside the method, such as a full disk.
    """
    cell = cell.preparing
    folder, target = preparing_folder(results, cell), prepared_folder(results, cell)
    with _locked(cell, folder):
        identity = identity_of(cell, results)
        if (made := _there(folder, target, identity, results)) is not None:
            return made
        device = device_of(cell)
        make_current(device)
        recipe = cell.preparer_recipe
        require_precision(device, recipe.precision)
        deterministic(device, recipe.precision)
        job = PreparationJob(
            replace(task_of(cell, results, device), recipe=recipe),
            cell.model.use,
            folder,
            _resume(folder, identity),
            lambda cost: _write_progress(folder, identity, cost),
            checkpoint_every_seconds,
        )
        span = Span()
        at_start = {
            "started": span.started,
            **provenance(device, Passes(recipe, device).settings()),
            "sources_sha256": sources(cell),
        }
        reason = _attempt(cell, job, folder)
        made = Prepared(
            status="done" if reason is None else "failed",
            reason=reason,
            identity=identity,
            files=digests_of(folder),
            cost=job.cost(),
            provenance={**at_start, "ended": span.ended()},
        )
        if identity_of(cell, results) != identity:
            raise UserError(
                f"options, data or code were changed while {cell.preparation} was prepared, so it is not "
                "published: start it again"
            )
        publish_prepared(folder, target, made)
        if made.status == "done":
            record.keep(results, digests.of_identity(identity), target)
    return made


def _attempt(cell: Cell, job: Job, folder: Path) -> str | None:
    """Call the method's hook `prepare`; gives the reason if it failed, else None."""
    try:
        method = plugins.get("method", cell.method.use).load()
        method.prepare(resolve(method, cell.method.options), job, folder)
    except (MethodError, plugins.PluginError) as error:
        return printable(str(error))
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        reason = blame(error)
        if reason is None:
            raise
        traceback.print_exc()
        return reason
    return None


def publish_failure(cell: Cell, results: Path, reason: str) -> Prepared:
    """Publish the failure of a preparation whose process could not publish anything itself."""
    folder, target = preparing_folder(results, cell), prepared_folder(results, cell)
    with _locked(cell, folder):
        identity = identity_of(cell, results)
        if (made := _there(folder, target, identity, results)) is not None:
            return made
        cost = _resume(folder, identity)
        made = Prepared(
            status="failed",
            reason=reason,
            identity=identity,
            files=digests_of(folder),
            cost=cost,
            provenance={"ended": now()},
        )
        publish_prepared(folder, target, made)
    return made


def _locked(cell: Cell, folder: Path) -> AbstractContextManager[None]:
    return locked(folder.with_name(f"{folder.name}.lock"), f"{cell.suite}/{cell.preparation}")


def _there(folder: Path, target: Path, identity: dict[str, str], results: Path) -> Prepared | None:
    """A preparation that need not be made again; the store may have it."""
    if (made := finished(folder, target, identity)) is None:
        record.fetch(results, digests.of_identity(identity), target)
        made = finished(folder, target, identity)
    return made


def _resume(folder: Path, identity: dict[str, str]) -> Cost:
    """The cost of earlier attempts, whose files are kept if they were made for the same identity.

    Otherwise, or if `progress.json` is not sound, the folder is emptied, and nothing has been spent.
    """
    path = folder / PROGRESS
    if os.path.lexists(path):
        try:
            progress = _Progress.model_validate(digests.read_json(path))
            if progress.identity == identity:
                return progress.cost
        except digests.Damaged as error:
            print(f"preparing from the beginning: {error}")
        except ValidationError as error:
            print(f"preparing from the beginning: {path} is not sound ({'; '.join(problems(error))})")
    record.discard(folder)
    with writing(folder):
        folder.mkdir(parents=True)
    nothing = Cost(seconds=0.0, traffic=Traffic.sum([]))
    _write_progress(folder, identity, nothing)
    return nothing


def _write_progress(folder: Path, identity: dict[str, str], cost: Cost) -> None:
    progress = _Progress(identity=identity, cost=cost)
    digests.write_json(folder / PROGRESS, progress.model_dump(mode="json"))
