"""Runs one cell from beginning to end: data, training, checkpoints, the record.

Where each worker has a process of its own, all processes do this together. An error in one of them stops all.
The process of rank 0 leads: it alone publishes.

An error inside the method or the model is a result, and is recorded. An error outside them is not: missing
data, a full disk, too little memory. It is raised, and the next attempt resumes from the last checkpoint.
"""

import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from thinwire import plugins
from thinwire.base import digests
from thinwire.base.errors import MethodError, ResourceError, UserError, message_of, printable
from thinwire.base.files import writing
from thinwire.base.signals import heeding_stops
from thinwire.config.cell import Cell, sources
from thinwire.emulation.emulated_run import EmulatedRun
from thinwire.records import checkpoint, record
from thinwire.records.invariants import require_invariants
from thinwire.records.provenance import now
from thinwire.records.record import Record, Status
from thinwire.records.result import result_of
from thinwire.train.cell_task import all_or_none, blame
from thinwire.train.evaluation import Diverged
from thinwire.train.result_files import ProgressFile, partial_folder, record_folder
from thinwire.train.run_setup import RunCheckpoints, RunSetup
from thinwire.train.trainer import Trainer
from thinwire.transport.inprocess import InProcess
from thinwire.transport.interface import Ended, Outcome, Transport
from thinwire.transport.rendezvous import ConnectionLost

Report = Callable[[Trainer], None]
# Characters of an entry of the log, which may be the stack of an error.
_LONGEST_ENTRY = 20_000


class Interrupted(Exception):
    """A signal asked the run to stop. Its state is saved, and the next attempt resumes from it."""

    def __init__(self, number: int) -> None:
        super().__init__(f"interrupted by {signal.Signals(number).name}")
        self.number = number


class Attempt:
    """One attempt at a cell. It resumes where an earlier attempt was interrupted."""

    def __init__(
        self,
        cell: Cell,
        results: Path,
        checkpoint_every_seconds: float,
        hold: bool = False,
        transport: Transport | None = None,
        emulated: EmulatedRun | None = None,
        doing: Callable[[str], None] = lambda what: None,
    ) -> None:
        """Prepare an attempt.

        Args:
            cell: what is trained.
            results: the folder in which its record is published.
            checkpoint_every_seconds: of training.
            hold: leave the finished record unpublished, for the caller.
            transport: between the workers; None if all of them live in this process.
            emulated: measures the emulated cluster; None if the workers are not on one.
            doing: called with a description of what takes long beside the steps.
        """
        self.cell = cell
        self.results = results
        self._hold = hold
        self.transport: Transport = InProcess(cell.workers) if transport is None else transport
        kind = self.transport.kind
        if kind == "mirrored":
            raise ValueError("one worker without the others is no run of the cell, and has no record")
        self._kind = kind
        self.rank = self.transport.ranks[0]
        self.leads = self.rank == 0
        self.outcome: Outcome | None = None  # how the run ends, once that is known
        self.notes: list[str] = []  # the first lines of the log
        self.partial, self.target = partial_folder(results, cell), record_folder(results, cell)
        self._checkpoint_folder = self.partial / record.CHECKPOINTS
        if len(self.transport.ranks) < cell.workers:
            self._checkpoint_folder = checkpoint.folder_of_rank(self._checkpoint_folder, self.rank)
        self._checkpoint_every = checkpoint_every_seconds
        self._doing = doing
        self._setup = RunSetup(cell, results, self.transport, doing)
        self._emulated = emulated
        self._shows_progress = True
        self._progress_file = ProgressFile(self.partial)

    @property
    def failed(self) -> bool:
        """Has the run failed or diverged in this process?"""
        return self.outcome is not None and self.outcome[0] in ("failed", "diverged")

    def run(self, report: Report) -> Record:
        """Train the cell and publish its record; the caller holds its lock.

        Args:
            report: is called after each step.

        Raises:
            UserError: an error outside the method and the model; nothing is lost.
            Interrupted: a signal asked for a stop; the state is saved.
            ConnectionLost: another process cannot be reached, or could not be informed of an error here.
        """
        with all_or_none(self.transport):
            if self.leads:
                with writing(self.results):
                    self.partial.mkdir(parents=True, exist_ok=True)
                    (self.partial / record.RUN).unlink(missing_ok=True)
        with writing(self.results):
            self._log = (self.partial / record.LOG).open("a", buffering=1)
        with self._log:
            self.outcome = status, reason = self._attempt(report)
            if self.leads:
                self.log(f"{status}{': ' + reason if reason else ''}")
            with all_or_none(self.transport):
                return self._publish(cast(Status, status), reason)

    def _attempt(self, report: Report) -> Outcome:
        """Train, and give how the run ended. An error in a plug-in is an outcome as well."""
        if self.leads:
            about = f"{self.cell.suite}/{self.cell.path}, fingerprint {self.cell.fingerprint}"
            for line in (about, *self.notes):
                self.log(line)
        try:
            return self._train(report)
        except Ended as error:
            return error.outcome
        except Diverged as error:
            self.outcome = ("diverged", str(error))
        except (MethodError, plugins.PluginError) as error:
            self.outcome = ("failed", printable(str(error)))
        except (Interrupted, ConnectionLost, KeyboardInterrupt):
            raise
        except BaseException as error:
            reason = blame(error)
            if reason is None:
                raise
            self.log(traceback.format_exc())
            self.outcome = ("failed", reason)
        return self.transport.end_together(self.outcome)

    def log(self, line: str) -> None:
        """Write a line to the log of the run, with the time."""
        print(now(), printable(line, _LONGEST_ENTRY), file=self._log)

    def _train(self, report: Report) -> Outcome:
        with all_or_none(self.transport):
            trainer, prepared = self._setup.load()
        self._setup.note_ranks()
        if reason := trainer.skip():
            return "skipped", printable(reason)
        trainer.setup(prepared)
        checkpoints = RunCheckpoints(
            self._checkpoint_folder, self._checkpoint_every, self._setup.identity(), self.log, self._doing
        )
        trainer.doing = self._doing
        if checkpoints.resume(trainer):
            self._setup.note_resume(checkpoints.interruptions)
            if self.leads:
                self.log(f"goes on after step {trainer.step}")

        shown = -1  # rows of the curve

        def show(trainer: Trainer) -> None:
            """Show the progress; if there is a new evaluation, rank 0 may take long, so the others wait."""
            nonlocal shown
            self._show_progress(report, trainer)
            if len(trainer.curve) > shown:
                shown = len(trainer.curve)
                trainer.meet()

        def after_step(trainer: Trainer) -> None:
            show(trainer)
            if not checkpoints.is_due(trainer):
                return
            checkpoints.save(trainer)
            if stop := trainer.status.stop:
                if self.leads:
                    self.log(f"interrupted after step {trainer.step}")
                raise Interrupted(stop)

        def request_stop(number: int) -> None:
            trainer.status.asked_to_stop = number

        show(trainer)
        # The first signal asks for a stop after a step, the second one stops at once.
        with heeding_stops(request_stop, once=True), self._measured(trainer):
            trainer.train(after_step=after_step)
        self._setup.note_ranks_again()
        return "done", None

    @contextmanager
    def _measured(self, trainer: Trainer) -> Iterator[None]:
        """On an emulated cluster, record what it does while this is trained."""
        if self._emulated is None:
            yield
            return
        self._setup.note_emulation(self._emulated)
        with self._emulated.counting([worker.ledger for worker in trainer.workers]) as pause:
            trainer.around_evaluation = pause
            yield
        self._setup.note_emulation(self._emulated)

    def _show_progress(self, report: Report, trainer: Trainer) -> None:
        """Report the progress; an error in the report never changes the result."""
        if self._shows_progress:
            try:
                if self.leads:
                    learns = trainer.task.data.task
                    score = learns.shown(trainer.curve[-1][learns.test_column]) if trainer.curve else None
                    self._progress_file.update(
                        trainer.step, trainer.total_steps, trainer.steps_per_epoch, score
                    )
                report(trainer)
            except Exception as error:
                self._shows_progress = False
                self.log(f"progress is no longer shown ({message_of(error)})")

    def _publish(self, status: Status, reason: str | None) -> Record:
        setup, trainer = self._setup, self._setup.trainer
        if changed := [kind for kind, own in sources(self.cell).items() if own != setup.sources[kind]]:
            raise UserError(
                f"the file of the {' and of the '.join(changed)} was changed while {self.cell.path} was "
                "trained, so its result is not published: start it again"
            )
        curve = trainer.curve if trainer else []
        made = Record(
            kind=self._kind,
            no_time_because=setup.no_time_because,
            status=status,
            reason=reason,
            cell=self.cell.identity(),
            fingerprint=self.cell.fingerprint,
            result=result_of(curve, trainer.task.data.task) if trainer else None,
            interruptions=setup.interruptions,
            provenance={**setup.provenance, "ended": setup.span.ended()},
            **setup.record_fields,
        )
        if self.leads:
            self._doing("saves its record")
            record.write_aside(self.partial, made, curve, trainer.traffic if trainer else [])
            self._require_invariants()
            if not self._hold:
                record.put_in_place(self.partial, self.target)
        return made

    def _require_invariants(self) -> None:
        """Refuse a record that `collect` would refuse, before it is published."""
        try:
            # As it is read later: lists are tuples before.
            require_invariants(self.partial, record.read_sound(self.partial / record.RUN), self.cell)
        except digests.Damaged as error:
            # The error may be in the saved states, too.
            record.discard(self.partial / record.CHECKPOINTS)
            (self.partial / record.RUN).unlink()
            raise ResourceError(
                f"{error}: the record is not published; start again to train from the beginning, and report "
                "it if that does not help"
            ) from None
