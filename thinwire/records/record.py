"""The record of a run: one folder, which is published in one step and only if it is sound.

The record consists of four files. Tables and figures read nothing else.

- `run.json` has the schema of this module.
- `curve.parquet` has one row for each evaluation.
- `traffic.parquet` has one row for each evaluation, channel, verb and kind.
- `log.txt` is the log.

`run.json` contains the SHA-256 digests of the other files (`files`) and of its own content (`sha256`). They
show whether a file was changed later, by accident or by a careless edit. They are no signature.
"""

import math
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Any, Final, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field, ValidationError, field_validator, model_serializer, model_validator
from pydantic import SerializerFunctionWrapHandler as Dump

from thinwire.base import digests
from thinwire.base.errors import UserError, shortage
from thinwire.base.files import aside, publish, writing
from thinwire.base.learning import CLASSIFICATION, TASKS, LearningTask
from thinwire.base.options import problems
from thinwire.records.result import SCORES, TRAFFIC_COLUMNS, Cost, Partition, Result, Schema, curve_columns

SCHEMA_VERSION: Final = 3
RUN, CURVE, TRAFFIC, LOG = FILES = ("run.json", "curve.parquet", "traffic.parquet", "log.txt")
# Two folders and a file beside these files while the run is in progress.
CHECKPOINTS, EXIT_REPORTS, PROGRESS = "checkpoints", "ranks", "progress.json"

Status = Literal["done", "diverged", "failed", "skipped"]
# Parts of the provenance, which only some runs have.
_PARTS = {
    **dict.fromkeys(("sources_sha256", "data_sha256", "git", "hardware", "packages", "environment"), dict),
    "emulation": dict,
    "ranks": list,
    **dict.fromkeys(("prepared_sha256", "started", "ended"), str),
}


# A file of another version is refused, because this code does not know its meaning.
Version = Literal[3]


class Record(Schema):
    """The content of `run.json` without the digest of itself."""

    schema_version: Version = SCHEMA_VERSION
    kind: Literal["inprocess", "measured", "emulated", "simulated"]
    no_time_because: str | None = None  # for a measured run whose clocks say nothing about the method: why
    status: Status
    reason: str | None = None  # given for every status except done
    cell: dict[str, Any]
    fingerprint: str
    method_options: dict[str, object]
    model_options: dict[str, object]
    task: Literal["classification", "next_character"] = "classification"
    # Of the data set, and of what the score is measured on; None if the run failed before it knew them.
    classes: int | None = Field(default=None, ge=1)
    evaluated_images: int | None = Field(default=None, ge=1)
    evaluated_characters: int | None = Field(default=None, ge=1)
    parameters: int | None = Field(default=None, ge=1)
    total_steps: int | None = Field(default=None, ge=1)
    steps_per_epoch: int | None = Field(default=None, ge=1)
    partition: Partition | None = None  # None with iid, or if the run failed before
    preparation: Cost | None = None  # None if the method has no preparation
    result: Result | None = None
    interruptions: int = Field(default=0, ge=0)
    provenance: dict[str, Any]
    # SHA-256 of the files beside it, by name; set when it is written.
    files: dict[str, str] = Field(default={})
    # Of its own content; set when it is read, so it is no part of it.
    sha256: str | None = Field(default=None, exclude=True)

    @model_validator(mode="after")
    def _whole(self) -> "Record":
        if self.status == "done" and self.result is None:
            raise ValueError("a run that is done must have a result")
        if self.status != "done" and not self.reason:
            raise ValueError(f"a run that is {self.status} must give a reason")
        if self.result is not None:
            if self.task == CLASSIFICATION.name and self.result.test_accuracy_percent is None:
                raise ValueError("a result of classification must have an accuracy")
            own = (self.learns.test_column, self.learns.best_column)
            if others := [
                name for name in SCORES if name not in own and getattr(self.result, name) is not None
            ]:
                raise ValueError(f"a result of {self.task} has no {others[0]}")
        return self

    @model_serializer(mode="wrap")
    def _without_what_few_have(self, dump: Dump) -> dict[str, object]:
        left_out = {"task", "evaluated_characters"} if self.task == CLASSIFICATION.name else set()
        if self.partition is None:
            left_out.add("partition")
        return {key: value for key, value in dump(self).items() if key not in left_out}

    @property
    def learns(self) -> LearningTask:
        return TASKS[self.task]

    def shown_score(self) -> str:
        """The score in a sentence; the run must have a result."""
        assert self.result is not None
        score = getattr(self.result, self.learns.test_column)
        return self.learns.shown(math.nan if score is None else score)

    @field_validator("files")
    @classmethod
    def _beside(cls, files: dict[str, str]) -> dict[str, str]:
        if others := files.keys() - {CURVE, TRAFFIC, LOG}:
            raise ValueError(f"{min(others)} is no file of a record")
        return files

    @field_validator("provenance")
    @classmethod
    def _parts(cls, provenance: dict[str, object]) -> dict[str, object]:
        """What readers look up in it has the type that they expect."""
        for name, kind in _PARTS.items():
            if not isinstance(provenance.get(name), (kind, NoneType)):
                raise ValueError(f"its {name} must be a {kind.__name__}")
        return provenance


def write_aside(
    scratch: Path,
    record: Record,
    curve: Sequence[Mapping[str, object]],
    traffic: Sequence[Mapping[str, object]],
) -> None:
    """Write the files of a record into `scratch`, `run.json` last; a log that is there may still grow."""
    with writing(scratch):
        own = sorted({key for row in curve for key in row if key.startswith("method/")})
        columns = pa.schema([*curve_columns(record.learns), *((name, pa.float64()) for name in own)])
        _write_parquet(scratch / CURVE, curve, columns)
        _write_parquet(scratch / TRAFFIC, traffic, TRAFFIC_COLUMNS)
        (scratch / LOG).touch()
    _write_run(scratch, record, (CURVE, TRAFFIC))
    read(scratch / RUN)


def put_in_place(scratch: Path, target: Path) -> None:
    """Publish a record whose files are written, and delete its checkpoints, which are now useless.

    Raises:
        UserError: a file was changed after it was written.
    """
    made = read(scratch / RUN)
    with writing(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        # A copy: a process that still has the log open and writes to it does not change the published one.
        with aside(scratch / LOG) as copy:
            shutil.copyfile(scratch / LOG, copy)
    _write_run(scratch, made, (CURVE, TRAFFIC, LOG))
    discard(scratch / CHECKPOINTS)
    discard(scratch / EXIT_REPORTS)
    (scratch / PROGRESS).unlink(missing_ok=True)
    publish(scratch, target)


def read(path: Path, advice: str = "start it again") -> Record:
    """Read a `run.json`, and compare it and the files beside it with their digests.

    Of a record that `write_aside` has written and nobody has published, the log is not checked.

    Raises:
        UserError: it is not a sound record, or a file is missing, changed or cannot be read. The message ends
            with the advice.
    """
    try:
        return read_sound(path)
    except digests.Damaged as error:
        raise UserError(f"{error}: {advice}") from None


def read_sound(path: Path) -> Record:
    """As `read`, but a record that is not sound is `Damaged`: the caller knows what to do about it."""
    try:
        content, digest = digests.read_json_and_digest(path)
        made = Record.model_validate({**content, "sha256": digest})
    except ValidationError as error:
        raise digests.Damaged(f"{path} is not a sound run record ({'; '.join(problems(error))})") from None
    if missing := {CURVE, TRAFFIC} - made.files.keys():
        raise digests.Damaged(f"{path} has no digest of {min(missing)}")
    digests.require_files(path.parent, made.files)
    return made


def read_tables(folder: Path) -> tuple[pa.Table, pa.Table]:
    """The curve and the traffic of the record in a folder, or Damaged: one of them is no parquet file."""
    return _read(folder / CURVE), _read(folder / TRAFFIC)


def _read(path: Path) -> pa.Table:
    try:
        # A table has few rows: threads that read ahead or decode columns only cost time, as do Arrow's files.
        content = pa.BufferReader(path.read_bytes())
        return pq.ParquetFile(content, pre_buffer=False).read(use_threads=False)
    except (pa.ArrowException, OSError) as error:
        # Too little memory, or a thread that cannot start, says nothing about the file.
        if (short := shortage(error)) is not None:
            raise short from None
        reason = str(error).splitlines()[0]
        raise digests.Damaged(f"{path} cannot be read as a table ({reason})") from None


def discard(folder: Path) -> None:
    """Delete a folder that an attempt has left behind."""
    shutil.rmtree(folder, ignore_errors=True)


def _write_run(folder: Path, record: Record, files: Sequence[str]) -> None:
    """Write `run.json` with the digests of these files, which are in the same folder."""
    complete = record.model_copy(update={"files": digests.of_files(folder, files)})
    digests.write_json(folder / RUN, complete.model_dump(mode="json"))


def _write_parquet(path: Path, rows: Sequence[Mapping[str, object]], columns: pa.Schema) -> None:
    table = pa.table({c.name: [row.get(c.name) for row in rows] for c in columns}, schema=columns)
    pq.write_table(table, path)


# Snakemake deletes the outputs of a job before it starts the job again. What is still right is copied back
# from the store, which has finished folders by the digest of what they were made from. It may be deleted.
def keep(results: Path, key: str, folder: Path) -> None:
    """Store a copy of a finished folder under its key."""
    _copy(folder, _place(results, key))


def fetch(results: Path, key: str, target: Path) -> bool:
    """Put a copy of what is stored under this key at `target`; False if nothing is."""
    place = _place(results, key)
    if not place.is_dir():
        return False
    _copy(place, target)
    return True


def forget(results: Path, key: str) -> None:
    """Delete what is stored under this key, because it is damaged."""
    shutil.rmtree(_place(results, key), ignore_errors=True)


def _place(results: Path, key: str) -> Path:
    return results / "store" / key[:2] / key


def _copy(folder: Path, target: Path) -> None:
    """Copy a folder, so that the copy is complete or does not exist."""
    scratch = target.with_name(f".{target.name}.new.{os.getpid()}")
    with writing(target):
        shutil.rmtree(scratch, ignore_errors=True)
        shutil.copytree(folder, scratch)
    publish(scratch, target)
