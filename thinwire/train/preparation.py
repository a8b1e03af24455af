"""What a method prepares before its runs, once for each model, data set and seed.

A preparation is published as a folder: the method's own files, and `prepared.json` with its cost. One that
fails is published too, with its reason, and the runs that need it fail with that reason.
"""

import json
import time
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from thinwire import plugins, record
from thinwire.cluster import Cluster
from thinwire.config.cell import Cell
from thinwire.errors import MethodError, UserError
from thinwire.files import publish, write_json, writing
from thinwire.method import Method
from thinwire.options import problems, resolve
from thinwire.provenance import now, provenance
from thinwire.train.deterministic import deterministic
from thinwire.train.places import prepared_folder, preparing_folder
from thinwire.train.task import Task, device_of, sources, task_of
from thinwire.train.trainer import Trainer

PREPARED = "prepared.json"
_IDENTITY = "identity.json"


class Prepared(record.Schema):
    """`prepared.json`."""

    schema_version: int = record.SCHEMA_VERSION
    status: Literal["done", "failed"]
    reason: str | None = None
    fingerprint: str
    cost: record.Cost
    provenance: dict[str, Any]


class Job:
    """A preparation for one model, data set and seed."""

    def __init__(self, task: Task) -> None:
        self.task = task  # on one worker; see `trainer` for more
        self._trainers: list[Trainer] = []

    def trainer(self, method: type[Method], config: Any, workers: int = 1, nodes: int = 1) -> Trainer:
        """A run of another method, ready for its first step; its traffic is part of the cost."""
        trainer = Trainer(replace(self.task, cluster=Cluster(workers, nodes)), method, config)
        trainer.setup()
        self._trainers.append(trainer)
        return trainer

    def traffic(self) -> record.Traffic:
        """What the runs of this job have sent, the sum of their means over the workers."""
        return record.Traffic.sum([trainer.sent() for trainer in self._trainers])


def prepare(cell: Cell, results: Path) -> Prepared:
    """Let the method of a cell prepare, and publish what it made.

    An interrupted attempt leaves its folder, and the next one finds it as it was, as long as neither
    options nor code have changed.

    Raises:
        UserError: something around the preparation is wrong.
    """
    folder = preparing_folder(results, cell)
    plugin = plugins.get("method", cell.method.use)
    identity = {"fingerprint": cell.preparation_fingerprint, **sources(cell)}
    _take_up(folder, identity)
    device = device_of(cell)
    deterministic(device)
    began = time.monotonic()
    about = {"started": now(), **provenance(device), "sources_sha256": sources(cell)}
    status: Literal["done", "failed"] = "done"
    reason, job = None, None
    try:
        method = plugin.load()
        config = resolve(method, cell.method.options)
        job = Job(replace(task_of(cell, results, device), cluster=Cluster(1)))
        method.prepare(config, job, folder)
    except (MethodError, plugins.PluginError) as error:
        status, reason = "failed", str(error)
    except UserError:
        raise
    except Exception as error:
        traceback.print_exc()
        status, reason = "failed", f"{type(error).__name__}: {error}"
    made = Prepared(
        status=status,
        reason=reason,
        fingerprint=cell.preparation_fingerprint,
        cost=record.Cost(
            seconds=time.monotonic() - began, traffic=job.traffic() if job else record.Traffic.sum([])
        ),
        provenance={**about, "ended": now()},
    )
    _publish(folder, prepared_folder(results, cell), made)
    return made


def read(folder: Path, fingerprint: str) -> Prepared:
    """Read a `prepared.json` back.

    Raises:
        UserError: there is none, it is not sound, or it is of other options.
    """
    path = folder / PREPARED
    if not path.is_file():
        raise UserError(f"{path} is missing: run `thinwire prepare` (or the pipeline) first")
    try:
        made = Prepared.model_validate_json(path.read_text())
    except ValidationError as error:
        raise UserError(f"{path} is not a sound record: {'; '.join(problems(error))}") from None
    if made.fingerprint != fingerprint:
        raise UserError(f"{path} was prepared with other options than the suite has now: prepare it again")
    return made


def bury(cell: Cell, results: Path, reason: str) -> Prepared:
    """Publish that a preparation's process died without a word."""
    folder = preparing_folder(results, cell)
    record.discard(folder)
    with writing(folder):
        folder.mkdir(parents=True)
    made = Prepared(
        status="failed",
        reason=reason,
        fingerprint=cell.preparation_fingerprint,
        cost=record.Cost(seconds=0.0, traffic=record.Traffic.sum([])),
        provenance={"ended": now()},
    )
    _publish(folder, prepared_folder(results, cell), made)
    return made


def _take_up(folder: Path, identity: dict[str, str]) -> None:
    """Keep what an interrupted attempt of the same options and code left, and nothing else."""
    path = folder / _IDENTITY
    if not path.is_file() or json.loads(path.read_text()) != identity:
        record.discard(folder)
        write_json(path, identity)


def _publish(folder: Path, target: Path, made: Prepared) -> None:
    write_json(folder / PREPARED, made.model_dump(mode="json"))
    publish(folder, target)
