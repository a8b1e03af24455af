"""What a method has prepared: a folder with its files, and `prepared.json` about them."""

import os
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from thinwire import digests, record
from thinwire.config.cell import Cell
from thinwire.config.grid import prepared_from, sources
from thinwire.data.arrays import MANIFEST
from thinwire.errors import UserError
from thinwire.files import publish, sha256
from thinwire.options import problems
from thinwire.train.paths import data_folder

PREPARED = "prepared.json"
# Beside the method's files while it prepares: for what, and what it has cost so far.
PROGRESS = "progress.json"
# What is needed between the attempts at a preparation, and not afterwards.
SCRATCH = "scratch"


class Prepared(record.Schema):
    """`prepared.json`, but for the digest of itself."""

    schema_version: record.Version = record.SCHEMA_VERSION
    status: Literal["done", "failed"]
    reason: str | None = None
    identity: dict[str, str]
    files: dict[str, str]  # SHA-256 of what the method left, by path
    cost: record.Cost
    provenance: dict[str, Any]


def identity_of(cell: Cell, results: Path) -> dict[str, str]:
    """All that a preparation depends on: options, code and data."""
    manifest = data_folder(results, cell.dataset) / MANIFEST
    files = {f"file of the {kind}": digest for kind, digest in sources(cell).items() if kind != "dataset"}
    files |= {f"file of the {p.kind} {p.name}": p.sha256 for p in prepared_from(cell)}
    data = sha256(manifest) if manifest.exists() else ""
    return {**cell.preparation_identity(), "data": data, **files}


def read(folder: Path, identity: dict[str, str]) -> Prepared:
    """Read a `prepared.json` back.

    Raises:
        UserError: there is none, it is not sound, it was made for something else, or a file is missing, was
            added or changed.
    """
    path, again = folder / PREPARED, f"delete {folder} and prepare it again"
    if not os.path.lexists(path):
        raise UserError(f"{path} is missing: run `thinwire prepare` (or the pipeline) first")
    try:
        made = Prepared.model_validate(digests.read_json(path))
    except digests.Damaged as error:
        raise UserError(f"{error}: {again}") from None
    except ValidationError as error:
        raise UserError(f"{path} is not a sound record ({'; '.join(problems(error))}): {again}") from None
    if other := [key for key in {**identity, **made.identity} if made.identity.get(key) != identity.get(key)]:
        raise UserError(
            f"{path} was prepared for another {' and another '.join(other)}: delete it and prepare it again"
        )
    there = digests_of(folder)
    for name in sorted({*there, *made.files}):
        if there.get(name) != made.files.get(name):
            raise UserError(f"{folder / name} is not what was prepared: {again}")
    return made


def finished(folder: Path, target: Path, identity: dict[str, str]) -> Prepared | None:
    """What is made already: published, or all but published when its process died."""
    if (all_but_published := _sound(folder, identity)) is not None:
        put_in_place(folder, target)
        return all_but_published
    published = _sound(target, identity)
    return published if published is not None and published.status == "done" else None


def _sound(folder: Path, identity: dict[str, str]) -> Prepared | None:
    """The record in a folder, if it is one and for this, and the files are those that it names."""
    try:
        return read(folder, identity)
    except UserError:
        return None


def publish_prepared(folder: Path, target: Path, made: Prepared) -> None:
    digests.write_json(folder / PREPARED, made.model_dump(mode="json"))
    put_in_place(folder, target)


def put_in_place(folder: Path, target: Path) -> None:
    record.discard(folder / SCRATCH)
    for left in _left_behind(folder):
        left.unlink(missing_ok=True)
    publish(folder, target)


def digests_of(folder: Path) -> dict[str, str]:
    """The files that the method left, but for what it and the engine needed on the way."""
    own = {folder / PREPARED, *_left_behind(folder)}
    kept = [p for p in sorted(folder.rglob("*")) if p.is_file() and folder / SCRATCH not in p.parents]
    return digests.of_files(folder, [str(p.relative_to(folder)) for p in kept if p not in own])


def _left_behind(folder: Path) -> list[Path]:
    """What the engine's own files leave behind when a process dies."""
    return [folder / PROGRESS, *folder.glob(".*.json.*")]
