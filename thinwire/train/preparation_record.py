"""The record of a preparation, and that of a cell's."""

import os
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from thinwire.base import digests
from thinwire.base.errors import MethodError, UserError
from thinwire.base.files import publish
from thinwire.base.options import problems
from thinwire.config.cell import Cell, plugin_digests, prepared_from, prepares, sources
from thinwire.data.dataset import MANIFEST
from thinwire.records import record
from thinwire.records.result import Cost, Schema
from thinwire.train.result_files import data_folder, prepare_command, prepared_folder

PREPARED = "prepared.json"
# Stands beside the method's files during the preparation: its identity, and its cost so far.
PROGRESS = "progress.json"
# A folder for files that attempts at a preparation share. It is removed afterwards.
SCRATCH = "scratch"


class Prepared(Schema):
    """The content of `prepared.json`, without its own digest."""

    schema_version: record.Version = record.SCHEMA_VERSION
    status: Literal["done", "failed"]
    reason: str | None = None
    identity: dict[str, str]
    files: dict[str, str]  # SHA-256 of the files that the method left, by path
    cost: Cost
    provenance: dict[str, object]


def identity_of(cell: Cell, results: Path) -> dict[str, str]:
    """All that a preparation depends on: options, code and data."""
    manifest = data_folder(results, cell.preparing.dataset) / MANIFEST
    files = {f"file of the {kind}": own for kind, own in sources(cell).items() if kind != "dataset"}
    for model in prepared_from(cell):
        files[f"file of the model {model.name}"] = digests.of_identity(plugin_digests("model", model.name))
    data = digests.of_file(manifest) if manifest.exists() else ""
    return {**cell.preparation_identity(), "data": data, **files}


def read(folder: Path, identity: dict[str, str], command: str = "`thinwire prepare`") -> Prepared:
    """Read a `prepared.json` that depends on this; messages name the command that makes it.

    Raises:
        UserError: it is missing, damaged or made for something else; or a file is missing, new or changed.
    """
    path, again = folder / PREPARED, f"make it again with {command}"
    if not os.path.lexists(path):
        raise UserError(f"{path} is missing: run {command} (or the pipeline) first")
    made = read_sound(folder, again)
    if other := differences(made.identity, identity):
        raise UserError(f"{path} was prepared for another {' and another '.join(other)}: {again}")
    return made


def read_sound(folder: Path, advice: str) -> Prepared:
    """As `read`, whatever it was made for; a `UserError` if a file is damaged, missing or new."""
    path = folder / PREPARED
    try:
        made = Prepared.model_validate(digests.read_json(path))
    except digests.Damaged as error:
        raise UserError(f"{error}: {advice}") from None
    except ValidationError as error:
        raise UserError(f"{path} is not a sound record ({'; '.join(problems(error))}): {advice}") from None
    found = digests_of(folder)
    for name in sorted({*found, *made.files}):
        if found.get(name) != made.files.get(name):
            raise UserError(f"{folder / name} is not what was prepared: {advice}")
    return made


def differences(made: dict[str, str], now: dict[str, str]) -> list[str]:
    """In what two identities differ."""
    return [key for key in {**now, **made} if made.get(key) != now.get(key)]


def finished(folder: Path, target: Path, identity: dict[str, str]) -> Prepared | None:
    """A preparation that need not be made again; one that lacked only its publication gets it now."""
    if (unpublished := _sound(folder, identity)) is not None:
        _put_in_place(folder, target)
        return unpublished
    published = _sound(target, identity)
    return published if published is not None and published.status == "done" else None


def _sound(folder: Path, identity: dict[str, str]) -> Prepared | None:
    """The record in a folder; None if it is missing, not sound or made for something else."""
    try:
        return read(folder, identity)
    except UserError:
        return None


def publish_prepared(folder: Path, target: Path, made: Prepared) -> None:
    """Publish a preparation: its record, and what the method has left in the folder."""
    digests.write_json(folder / PREPARED, made.model_dump(mode="json"))
    _put_in_place(folder, target)


def _put_in_place(folder: Path, target: Path) -> None:
    record.discard(folder / SCRATCH)
    for left in _engine_files(folder):
        left.unlink(missing_ok=True)
    publish(folder, target)


def digests_of(folder: Path) -> dict[str, str]:
    """The digests of the files that the method left, without scratch files and those of the engine."""
    own = {folder / PREPARED, *_engine_files(folder)}
    kept = [p for p in sorted(folder.rglob("*")) if p.is_file() and folder / SCRATCH not in p.parents]
    return digests.of_files(folder, [str(p.relative_to(folder)) for p in kept if p not in own])


def _engine_files(folder: Path) -> list[Path]:
    """Files that the engine needs on the way, also those that it leaves when a process dies."""
    return [folder / PROGRESS, *folder.glob(".*.json.*")]


def preparation_of(cell: Cell, results: Path) -> tuple[Path, Prepared] | None:
    """The folder of the preparation and its record; None if the method prepares nothing.

    Raises:
        MethodError: the preparation failed.
        UserError: it is missing, damaged or out of date; the message has the command that makes it.
    """
    if not prepares(cell.method.use):
        return None
    folder = prepared_folder(results, cell)
    made = read(folder, identity_of(cell, results), prepare_command(cell, results))
    if made.status == "failed":
        raise MethodError(f"its preparation failed: {made.reason}")
    return folder, made
