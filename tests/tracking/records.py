"""Invented records of a suite. Each cell has different numbers, so that no two can be confused."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from thinwire.config.cell import Cell
from thinwire.config.sources import sources
from thinwire.records import record
from thinwire.train.result_files import partial_folder, record_folder


def curve(cell: Cell, epochs: int) -> list[dict[str, Any]]:
    """A curve as the trainer writes it, with 19 steps an epoch."""
    own = int(cell.fingerprint[:4], 16)
    return [
        {
            "step": 19 * epoch,
            "epoch": epoch,
            "samples": 64 * 19 * epoch,
            "lr": 0.1 / epoch,
            "train_loss": 2.0 / epoch,
            "test_loss": 2.5 / epoch,
            "test_accuracy_percent": 100.0 - own / 1000 / epoch,
            **{name: float(epoch * own * place) for place, name in enumerate(record.BYTES, 1)},
            **{f"{clock}_seconds": 77.125 * epoch for clock in ("train", "eval", "harness")},
            "method/period": float(epoch),
        }
        for epoch in range(1, epochs + 1)
    ]


def made(cell: Cell, rows: list[dict[str, Any]], **changes: Any) -> record.Record:
    """A sound record of the cell."""
    content = {
        "kind": "inprocess",
        "status": "done",
        "cell": cell.identity(),
        "fingerprint": cell.fingerprint,
        "method_options": {"density": 0.25},
        "model_options": {},
        "parameters": 1000,
        "total_steps": 19 * max(len(rows), 1),
        "steps_per_epoch": 19,
        "result": record.result(rows),
        "provenance": {
            "thinwire": "0.1.0",
            "git": {"revision": "0" * 40, "changes_sha256": None},
            "sources_sha256": sources(cell),
        },
    }
    return record.Record(**(content | changes))


def write(
    scratch: Path,
    target: Path,
    made: record.Record,
    curve: Sequence[dict[str, Any]],
    traffic: Sequence[dict[str, Any]],
) -> None:
    """Write the files of a record into `scratch`, and publish them as `target`."""
    record.write_aside(scratch, made, curve, traffic)
    record.put_in_place(scratch, target)


def publish(
    results: Path, cell: Cell, epochs: int = 3, traffic: Sequence[dict[str, Any]] = (), **changes: Any
) -> Path:
    """Publish a record of the cell, and return its folder."""
    rows = curve(cell, epochs)
    scratch = partial_folder(results, cell)
    scratch.mkdir(parents=True, exist_ok=True)
    write(scratch, record_folder(results, cell), made(cell, rows, **changes), rows, traffic)
    return record_folder(results, cell)
