"""Invented records that hold all that a record of a run holds, of suites that train for three epochs."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from thinwire.base import digests
from thinwire.base.learning import CLASSIFICATION
from thinwire.config import expand
from thinwire.config.cell import Cell
from thinwire.config.cell import sources as sources
from thinwire.data.dataset import MANIFEST
from thinwire.optim.recipe import learning_rate
from thinwire.records import record
from thinwire.records.result import BYTES, result_of
from thinwire.train.result_files import data_folder, partial_folder, record_folder

STEPS_PER_EPOCH = 19
IMAGES = 539
EPOCHS = 3


def cells(suite: str) -> list[Cell]:
    """The cells of a suite, with three epochs."""
    return [
        replace(cell, recipe=cell.recipe.model_copy(update={"epochs": EPOCHS}))
        for cell in expand.cells(suite)
    ]


def curve(cell: Cell, epochs: int = EPOCHS) -> list[dict[str, Any]]:
    """The curve of a cell whose workers only average tensors; no two cells have the same bytes."""
    own = int(cell.fingerprint[:4], 16)
    rows = []
    for epoch in range(1, epochs + 1):
        step = STEPS_PER_EPOCH * epoch
        push = float(epoch * own * cell.workers)
        wire = 2 * (cell.workers - 1) * push / cell.workers
        rows.append(
            {
                "step": step,
                "epoch": epoch,
                "samples": step * cell.recipe.batch_per_worker(cell.workers) * cell.workers,
                "lr": learning_rate(cell.recipe, cell.workers, step - 1, STEPS_PER_EPOCH),
                "train_loss": 2.0 / epoch,
                "test_loss": 2.5 / epoch,
                "test_accuracy_percent": 100 * (IMAGES - own % 97 // epoch) / IMAGES,
                **{name: push if name.startswith("payload") else wire for name in BYTES},
                "between_nodes_bytes": 0.0 if cell.nodes == 1 else wire / 2,
                **{f"{clock}_seconds": 77.125 * epoch for clock in ("train", "eval", "harness")},
                "method/period": float(epoch),
            }
        )
    return rows


def traffic(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The traffic that a curve adds up."""
    place = {"channel": "world", "verb": "mean", "kind": "values"}
    return [{**row, **place, "messages": float(row["step"])} for row in rows]


def made(cell: Cell, rows: list[dict[str, Any]], **changes: Any) -> record.Record:
    """A record of the cell, which was made by the files of now."""
    content = {
        "kind": "inprocess",
        "status": "done",
        "cell": cell.identity(),
        "fingerprint": cell.fingerprint,
        "method_options": {"density": 0.25},
        "model_options": {},
        "parameters": 1000,
        "total_steps": STEPS_PER_EPOCH * max(len(rows), 1),
        "steps_per_epoch": STEPS_PER_EPOCH,
        "result": changes.get("result") or result_of(rows, CLASSIFICATION),
    }
    if "provenance" not in changes:
        content["provenance"] = {
            "thinwire": "0.1.0",
            "git": {"revision": "0" * 40, "changes_sha256": None},
            "sources_sha256": sources(cell),
        }
    return record.Record(**(content | changes))


def write(
    scratch: Path,
    target: Path,
    run: record.Record,
    curve: Sequence[dict[str, Any]],
    traffic: Sequence[dict[str, Any]],
) -> None:
    """Write the files of a record into `scratch`, and publish them as `target`."""
    record.write_aside(scratch, run, curve, traffic)
    record.put_in_place(scratch, target)


def publish(results: Path, cell: Cell, epochs: int = EPOCHS, **changes: Any) -> Path:
    """Publish a record of the cell, and return its folder."""
    rows = curve(cell, epochs)
    scratch = partial_folder(results, cell)
    scratch.mkdir(parents=True, exist_ok=True)
    about = {"total_steps": STEPS_PER_EPOCH * cell.recipe.epochs, "classes": 10, "evaluated_images": IMAGES}
    run = made(cell, rows, **{"method_options": {}, **about, **changes})
    write(scratch, record_folder(results, cell), run, rows, traffic(rows))
    return record_folder(results, cell)


def publish_current(results: Path, cell: Cell, about: Any = (), **changes: Any) -> Path:
    """Publish a record that was made with the files and data of now, but for what `about` says."""
    data = {MANIFEST: digests.of_file(data_folder(results, cell.dataset) / MANIFEST)}
    made = {"sources_sha256": sources(cell), "data_sha256": data, **dict(about)}
    return publish(results, cell, provenance=made, **changes)
