"""The W&B client, set up to send the run only: nothing about the machine, the code or the environment.

`Live` shows a run while it trains. A failure of W&B never affects the run.
"""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from thinwire.config.cell import Cell
from thinwire.publish.wandb import fields
from thinwire.records.record import Record

if TYPE_CHECKING:
    import wandb

# For reaching the server when a run begins, and for sending the rest when it ends.
TIMEOUT_SECONDS = 20.0


def import_silent() -> None:
    """Import the client, so that it prints nothing, and never asks for a key on the terminal.

    The import is slow, and most runs do not need it.
    """
    # By default the client reports its own errors to its makers; here only on request.
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    import wandb

    wandb.setup(settings=wandb.Settings(silent=True))


def begin(about: fields.About, folder: Path, mode: Literal["online", "offline"]) -> "wandb.Run":
    """Begin a run. If the server has a run with this id, it is replaced.

    The client's files will lie in `folder`/wandb. The mode `online` waits for the server, for at most
    `TIMEOUT_SECONDS`. Whatever the client raises is raised, and nothing is printed about it.
    """
    import_silent()
    import wandb

    folder.mkdir(parents=True, exist_ok=True)
    settings = wandb.Settings(
        mode=mode,
        root_dir=str(folder),
        reinit="create_new",
        init_timeout=TIMEOUT_SECONDS,
        finish_timeout=TIMEOUT_SECONDS,
        finish_timeout_raises=True,
        silent=True,
        symlink=False,
        # Do not send: code, its diff, output, environment, packages, the machine and its load.
        program="thinwire",
        host="",
        console="off",
        save_code=False,
        disable_code=True,
        disable_git=True,
        disable_job_creation=True,
        x_disable_meta=True,
        x_disable_stats=True,
        x_disable_machine_info=True,
        x_save_requirements=False,
    )
    return wandb.init(settings=settings, **about)


def begin_cell(
    cell: Cell, kind: str, seconds: str | None, folder: Path, mode: Literal["online", "offline"]
) -> "wandb.Run":
    """Begin the run of a cell, as `begin` does, with its axes and metrics.

    `kind` is that of its record, and `seconds` are as `fields.seconds_of` names them.
    """
    run = begin(fields.about(cell, kind), folder, mode)
    for axis in fields.axes(seconds):
        run.define_metric(axis)
    # Every row has every axis, so that the user can choose another axis for a panel.
    for metric in fields.METRICS:
        run.define_metric(metric.name, step_metric="epoch", step_sync=False, summary=metric.summary)
    return run


def end(run: "wandb.Run", made: Record) -> None:
    """Send the outcome of a run, and end it.

    Whatever the client raises is raised; a TimeoutError if the server does not take the rest in time.
    """
    run.config.update(fields.config(made), allow_val_change=True)
    run.summary.update(fields.summary(made))
    run.tags = (*(run.tags or ()), made.status)
    run.finish(exit_code=int(made.status not in ("done", "skipped")))


def forget() -> None:
    """Stop the client's service, which keeps the id of a run that could not begin."""
    if "wandb" in sys.modules:
        sys.modules["wandb"].teardown()


def reason(error: Exception) -> str:
    """What went wrong, in one line, without the advice that the client gives to its callers."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".:")


class Live:
    """Shows one run if the environment has `WANDB_MODE=online`, and does nothing otherwise.

    The run in W&B begins at the first call, when the run has its lock and trains. If the server cannot be
    reached, the run is logged offline, under `results`/wandb. If that fails too, it is not logged. One line
    on stderr says so; nothing is ever raised.
    """

    def __init__(self, cell: Cell, kind: str, results: Path) -> None:
        self._cell, self._kind, self._results = cell, kind, results
        # Whether its seconds are valid is known at the end; then the record says so.
        self._seconds = fields.seconds_of(kind)
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
                run.log(fields.history(row, self._seconds))
            self._logged = len(curve)

    def end(self, made: Record) -> None:
        """Send the outcome, and end the run in W&B."""
        if not self._wanted:
            return
        with self._quietly():
            run, self._run = self._begun(), None
            end(run, made)

    def _begun(self) -> "wandb.Run":
        if self._run is None:
            try:
                self._run = self._begin("online")
            except Exception as error:
                forget()
                self._run = self._begin("offline")
                where = self._results / "wandb"
                self._warn(f"{reason(error)}: this run is logged offline, in {where}")
        return self._run

    def _begin(self, mode: Literal["online", "offline"]) -> "wandb.Run":
        return begin_cell(self._cell, self._kind, self._seconds, self._results, mode)

    @contextmanager
    def _quietly(self) -> Iterator[None]:
        """After the first failure nothing more is tried."""
        try:
            yield
        except Exception as error:
            self._wanted = False
            self._abandon()
            self._warn(f"{reason(error)}: not all of this run is in W&B; `thinwire track` replays it")

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
