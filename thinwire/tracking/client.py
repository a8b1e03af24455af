"""The W&B client, told to keep to the run: nothing about the machine, the code or the environment."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from thinwire.config.cell import Cell
from thinwire.record import Record
from thinwire.tracking import view

if TYPE_CHECKING:
    import wandb

# To reach the server when a run begins, and to send what is left when it ends.
TIMEOUT_SECONDS = 20.0


def begin(cell: Cell, kind: str, folder: Path, mode: Literal["online", "offline"]) -> "wandb.Run":
    """Begin a run; a run of the same id that the server has is replaced.

    Args:
        cell: what is run.
        kind: as in its record.
        folder: its files will lie in `folder`/wandb.
        mode: online waits for the server, `TIMEOUT_SECONDS` at most.

    Raises:
        Exception: whatever the client raises; nothing is said about it on the terminal.
    """
    # Unless somebody wants it, its errors are not reported to its makers.
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    # Imported here because it takes its time, and most runs do without.
    import wandb

    # The client's own words stay off the terminal, and silenced it never asks for a key there.
    wandb.setup(settings=wandb.Settings(silent=True))
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
        # Neither code nor differences, output, environment, packages, or the machine and its load.
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
    run = wandb.init(settings=settings, **view.about(cell, kind))
    for axis in view.axes(kind):
        run.define_metric(axis)
    # Every row has every axis, so a panel can be given another one.
    for metric in view.METRICS:
        run.define_metric(metric, step_metric="epoch", step_sync=False)
    return run


def end(run: "wandb.Run", made: Record) -> None:
    """Say what came out of a run, and end it.

    Raises:
        Exception: whatever the client raises, TimeoutError if the server does not take what is left.
    """
    run.config.update(view.config(made), allow_val_change=True)
    run.summary.update(view.summary(made))
    run.tags = (made.kind, made.status)
    run.finish(exit_code=int(made.status not in ("done", "skipped")))


def forget() -> None:
    """Stop the client's service: it holds on to the id of a run that could not begin."""
    if "wandb" in sys.modules:
        sys.modules["wandb"].teardown()


def reason(error: Exception) -> str:
    """What went wrong, in one line and without advice that is for the client's own callers."""
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".:")
