"""`thinwire run SUITE CELL`."""

import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from thinwire.config.grid import cell, require_as_planned, require_valid
from thinwire.config.suite import load
from thinwire.train.run_cell import Attempt, Interrupted, Report
from thinwire.train.trainer import Trainer


def main(arguments: Namespace) -> int:
    """Train one cell, showing how it goes, and publish its record."""
    require_valid(arguments.suite)
    wanted = cell(arguments.suite, arguments.cell)
    require_as_planned(wanted, arguments.fingerprint, wanted.fingerprint)
    suite = load(arguments.suite)
    attempt = Attempt(wanted, arguments.results, suite.checkpoint_every_seconds)
    try:
        with _progress(wanted.evaluate_on.replace("_", "-")) as report:
            made = attempt.run(report)
    except Interrupted as error:
        print(f"{error}; the next `thinwire run` goes on from here", file=sys.stderr)
        return 128 + error.number
    outcome = made.status if made.reason is None else f"{made.status}: {made.reason}"
    if made.status == "done" and made.result is not None:
        traffic = made.result.traffic
        payload = traffic.payload_push_bytes + traffic.payload_pull_bytes
        outcome += (
            f": accuracy {made.result.test_accuracy_percent:.2f} %, payload {payload / 1e6:.3f} MB a worker"
        )
    print(f"{outcome}\n{attempt.target}")
    return int(made.status == "failed")


@contextmanager
def _progress(evaluated_on: str) -> Iterator[Report]:
    """A bar in a terminal, and a line an evaluation anywhere."""
    console = Console(highlight=False)
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("steps"), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("train", total=None)
        seen = 0

        def report(trainer: Trainer) -> None:
            nonlocal seen
            if console.is_terminal:
                bar.update(task, total=trainer.total_steps, completed=trainer.step)
            if len(trainer.curve) != seen:
                seen = len(trainer.curve)
                row = trainer.curve[-1]
                bar.console.print(
                    f"epoch {row['epoch']:3d}  train loss {row['train_loss']:.4f}  {evaluated_on} "
                    f"loss {row['test_loss']:.4f}  accuracy {row['test_accuracy_percent']:.2f} %"
                )

        yield report
