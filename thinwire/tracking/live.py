"""A run in W&B while it goes on. The run itself never notices how that goes."""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from thinwire.config.cell import Cell
from thinwire.record import Record
from thinwire.tracking import client, view

if TYPE_CHECKING:
    import wandb


class Live:
    """Shows one run, if the environment says `WANDB_MODE=online`, and does nothing if not.

    It begins at the first call, when the run has its lock and trains. Where the server cannot be reached it
    goes on offline, under `results`/wandb, and where that fails, not at all; one line on stderr says so.
    Nothing is ever raised.
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
        """A run that published nothing was interrupted; it is replaced when it goes on."""
        self._leave()

    def log(self, curve: Sequence[Mapping[str, Any]]) -> None:
        """Log the evaluations that are not yet logged, those before an interruption included."""
        if not self._wanted:
            return
        with self._quietly():
            run = self._begun()
            for row in curve[self._logged :]:
                run.log(view.history(row, self._kind))
            self._logged = len(curve)

    def end(self, made: Record) -> None:
        """Say what came out."""
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
        """The first thing that goes wrong is the last that is tried."""
        try:
            yield
        except Exception as error:
            self._wanted = False
            self._leave()
            self._warn(f"{client.reason(error)}: not all of this run is in W&B; `thinwire track` replays it")

    def _leave(self) -> None:
        """End a run of which nothing more will be said."""
        run, self._run = self._run, None
        if run is not None:
            with suppress(Exception):
                run.finish(exit_code=1)

    def _warn(self, line: str) -> None:
        if not self._warned:
            print(f"thinwire: W&B: {line}", file=sys.stderr)
        self._warned = True
