"""Invariants between paired records: those that differ only in their method or their number of workers."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from thinwire.config.cell import Cell
from thinwire.invariants.broken import Broken
from thinwire.record import RUN, Record


class Pairs:
    """Compares each record with the first one of its pair."""

    def __init__(self) -> None:
        self._first: dict[tuple[Any, ...], tuple[str, Path]] = {}

    def broken(self, folder: Path, run: Record, cell: Cell) -> Iterator[Broken]:
        """In what a record differs from the first one of its pair.

        Args:
            folder: of the record.
            run: its `run.json`.
            cell: that it is of.
        """
        pair = (cell.suite, cell.dataset, cell.model.label, cell.repetition, cell.device)
        for fact, value in _facts(run).items():
            if value is None:
                continue
            own = json.dumps(value, sort_keys=True)
            first, where = self._first.setdefault((*pair, fact), (own, folder))
            if first != own:
                yield Broken("pairs", RUN, f"its {fact} differ from those of its pair {where}")


def _facts(run: Record) -> dict[str, Any]:
    """What the records of a pair have in common, by its name in the plural; None if it is not known."""
    return {
        "initial weights": run.provenance.get("initial_weights_sha256"),
        "files of data": run.provenance.get("data_sha256"),
        "numbers of classes": run.classes,
        "numbers of evaluated images": run.evaluated_images,
        "numbers of parameters": run.parameters,
    }
