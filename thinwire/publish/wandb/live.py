"""Shows a run in W&B while it trains. A failure of W&B never affects the run."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from thinwire.config.cell import Cell
from thinwire.publish.wandb import client, fields
from thinwire.records.record import Record

if TYPE_CHECKING:
    import wandb


class Live:
    """Shows one run if the environment has `WANDB_MODE=online`, and does nothing otherwise.

    The run in W&B begins at the first call, when the run has its lock and trains. If the server cannot be
    reached, the run is logged offline, under `results`/wandb. If that fails too, it is not logged. One line
    on stderr says so; nothing is ever raised.
    """

    def __init__(self, cell: Cell, kind: str, results: Path) -> None:
        self._cell, self._kind, self._results = cell, kind, results
        self._wanted = os.environ.get("WANDB_MODE") == "online"
        self._run: wandb.Run | None = None
        self._logged = 0
        self._warned = False

    def __enter__(self) -> "Live":
        return self

    def __exit__(self, *_: object) -> None:
        """A run without a record was interrupted; its run in W&B is replaced when it goes on."""
        self._abandon()

    def log(self, curve: Sequence[Mapping[str, object]]) -> None:
        """Log the evaluations that are not logged yet, including those before an interruption."""
        if not self._wanted:
            return
        with self._quietly():
            run = self._begun()
            for row in curve[self._logged :]:
                run.log(fields.history(row, self._kind))
            self._logged = len(curve)

    def end(self, made: Record) -> None:
        """Send the outcome, and end the run in W&B."""
        if not self._wanted:
            return
        with self._quietly():
            run, self._run = self._begun(), None
            client.end(run, made)

    def _begun(self) -> "wandb.Run":
        if self._run is None:
            try:
                self._run = client.begin(self._cell, self._kind, self._results, "online")
            except Exception as error:
                client.forget()
                self._run = client.begin(self._cell, self._kind, self._results, "offline")
                where = self._results / "wandb"
                self._warn(f"{client.reason(error)}: this run is logged offline, in {where}")
        return self._run

    @contextmanager
    def _quietly(self) -> Iterator[None]:
        """After the first failure nothing more is tried."""
        try:
            yield
        except Exception as error:
            self._wanted = False
            self._abandon()
            self._warn(f"{client.reason(error)}: not all of this run is in W&B; `thinwire track` replays it")

    def _abandon(self) -> None:
        """End a run to which nothing more will be logged."""
        run, self._run = self._run, None
        if run is not None:
            with suppress(Exception):
                run.finish(exit_code=1)

    def _warn(self, line: str) -> None:
        if not self._warned:
            print(f"thinwire: W&B: {line}", file=sys.stderr)
        self._warned = True
