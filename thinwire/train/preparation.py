"""Lets a method prepare before its runs, once for each model, data set and seed.

A preparation that fails is published too. The runs that need it fail with its reason.
"""

import os
import traceback
from dataclasses import replace
from pathlib import Path

from pydantic import ValidationError

from thinwire import digests, plugins, record, record_store
from thinwire.blame import blame
from thinwire.config.cell import Cell
from thinwire.config.cell_sources import sources
from thinwire.errors import MethodError, UserError, printable
from thinwire.files import locked, writing
from thinwire.method import Job
from thinwire.options import problems, resolve
from thinwire.provenance import Span, now, provenance
from thinwire.train.cell_task import task_of
from thinwire.train.deterministic import deterministic
from thinwire.train.device_of_worker import device_of
from thinwire.train.preparation_job import PreparationJob
from thinwire.train.preparation_record import (
    PROGRESS,
    Prepared,
    digests_of,
    finished,
    identity_of,
    publish_prepared,
)
from thinwire.train.result_folders import prepared_folder, preparing_folder
from thinwire.transport.current_device import make_current


class _Progress(record.Schema):
    """The content of `progress.json`, without its own digest."""

    identity: dict[str, str]
    cost: record.Cost


def prepare(cell: Cell, results: Path, checkpoint_every_seconds: float) -> Prepared:
    """Let the method of a cell prepare, and publish what it made.

    An interrupted attempt leaves its folder behind. The next attempt finds it unchanged, if options, data
    and code are the same.

    Raises:
        UserError: it failed for a reason outside the method, such as a full disk.
    """
    cell = cell.preparing
    folder = preparing_folder(results, cell)
    with locked(folder.with_name(f"{folder.name}.lock"), f"{cell.suite}/{cell.preparation}"):
        identity = identity_of(cell, results)
        target = prepared_folder(results, cell)
        if (made := finished(folder, target, identity)) is not None:
            return made
        key = digests.of_identity(identity)
        record_store.fetch(results, key, target)
        if (made := finished(folder, target, identity)) is not None:
            return made
        device = device_of(cell)
        make_current(device)
        deterministic(device)
        job = PreparationJob(
            replace(task_of(cell, results, device), recipe=cell.preparer_recipe),
            cell.model.use,
            folder,
            _resume(folder, identity),
            lambda cost: _write_progress(folder, identity, cost),
            checkpoint_every_seconds,
        )
        span = Span()
        at_start = {"started": span.started, **provenance(device), "sources_sha256": sources(cell)}
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
            record_store.keep(results, key, target)
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
    with locked(folder.with_name(f"{folder.name}.lock"), f"{cell.suite}/{cell.preparation}"):
        identity = identity_of(cell, results)
        if (made := finished(folder, target, identity)) is not None:
            return made
        key = digests.of_identity(identity)
        record_store.fetch(results, key, target)
        if (made := finished(folder, target, identity)) is not None:
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


def _resume(folder: Path, identity: dict[str, str]) -> record.Cost:
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
    nothing = record.Cost(seconds=0.0, traffic=record.Traffic.sum([]))
    _write_progress(folder, identity, nothing)
    return nothing


def _write_progress(folder: Path, identity: dict[str, str], cost: record.Cost) -> None:
    progress = _Progress(identity=identity, cost=cost)
    digests.write_json(folder / PROGRESS, progress.model_dump(mode="json"))
