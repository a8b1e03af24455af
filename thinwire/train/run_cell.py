"""One cell from beginning to end: data, training, checkpoints, the record.

What goes wrong inside the method or the model is a result, and recorded as such. What is wrong around it
(no data, no room on the disk) is not: it is raised, and the run goes on from its last checkpoint the next
time.
"""

import signal
import time
import traceback
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from thinwire import checkpoint, plugins, record
from thinwire.config.cell import Cell
from thinwire.config.grid import prepares
from thinwire.errors import MethodError, UserError
from thinwire.files import locked, sha256, writing
from thinwire.options import as_dict, resolve
from thinwire.provenance import now, provenance
from thinwire.record import Record, Status
from thinwire.train import preparation
from thinwire.train.deterministic import deterministic
from thinwire.train.places import lock_file, partial_folder, prepared_folder, record_folder
from thinwire.train.task import device_of, sources, task_of
from thinwire.train.trainer import Diverged, Trainer

Report = Callable[[Trainer], None]
Outcome = tuple[Status, str | None]


class Interrupted(Exception):
    """A signal asked the run to stop; it is saved, and goes on the next time."""

    def __init__(self, number: int) -> None:
        super().__init__(f"interrupted by {signal.Signals(number).name}")
        self.number = number


class Attempt:
    """One attempt at a cell, which goes on where an earlier one was interrupted."""

    def __init__(self, cell: Cell, results: Path, checkpoint_every_seconds: float) -> None:
        self.cell = cell
        self.results = results
        self.partial, self.target = partial_folder(results, cell), record_folder(results, cell)
        self.trainer: Trainer | None = None
        self._checkpoint_every = checkpoint_every_seconds
        self._saved_at = time.monotonic()
        self._signal: int | None = None
        self._about: dict[str, Any] = {"method_options": {}, "model_options": {}}
        self._provenance: dict[str, Any] = {"started": now(), "seed": cell.seed}
        self._sources = sources(cell)
        self._interruptions = 0

    def run(self, report: Report) -> Record:
        """Train the cell and publish its record; `report` is called after every step.

        Raises:
            UserError: something around the run is wrong; nothing is lost.
            Interrupted: the state is saved.
        """
        with locked(lock_file(self.results, self.cell), f"{self.cell.suite}/{self.cell.path}"):
            with writing(self.results):
                self.partial.mkdir(parents=True, exist_ok=True)
                (self.partial / record.RUN).unlink(missing_ok=True)
                self._log = (self.partial / record.LOG).open("a", buffering=1)
            with self._log:
                status, reason = self._attempt(report)
                self.log(f"{status}{': ' + reason if reason else ''}")
            return self._publish(status, reason)

    def _attempt(self, report: Report) -> Outcome:
        """How the run ended; what goes wrong in a plug-in is an end like any other."""
        self.log(f"{self.cell.suite}/{self.cell.path}, fingerprint {self.cell.fingerprint}")
        device = device_of(self.cell)
        deterministic(device)
        self._provenance |= provenance(device)
        try:
            return self._train(device, report)
        except Diverged as error:
            return "diverged", str(error)
        except (MethodError, plugins.PluginError) as error:
            return "failed", str(error)
        except Interrupted:
            raise
        except (Exception, SystemExit) as error:
            reason = plugins.blame(error)
            if reason is None:
                raise
            self.log(traceback.format_exc())
            return "failed", reason

    def log(self, line: str) -> None:
        """A line for the run's log, with the time."""
        print(now(), line, file=self._log)

    def _train(self, device: torch.device, report: Report) -> Outcome:
        cell = self.cell
        self._provenance["sources_sha256"] = self._sources
        method = plugins.get("method", cell.method.use).load()
        config = resolve(method, cell.method.options)
        self._about["method_options"] = as_dict(config)
        model = plugins.get("model", cell.model.use).load()
        self._about["model_options"] = as_dict(resolve(model, cell.model.options))
        task = task_of(cell, self.results, device)
        self._provenance["data_sha256"] = task.data.checksums
        self.trainer = trainer = Trainer(task, method, config)
        params = trainer.workers[0].run.params
        self._about["parameters"] = sum(param.tensor.numel() for param in params)
        self._about["total_steps"] = trainer.total_steps
        self._about["steps_per_epoch"] = trainer.steps_per_epoch
        reason = trainer.skip()
        if reason:
            return "skipped", reason
        prepared = self._prepared()
        trainer.setup(prepared)
        identity = {"fingerprint": cell.fingerprint, "data": task.data.digest, **self._sources}
        if prepared is not None:
            identity["prepared"] = sha256(prepared / preparation.PREPARED)
            self._provenance["prepared_sha256"] = identity["prepared"]
        self._resume(trainer, identity)

        def after_step(trainer: Trainer) -> None:
            report(trainer)
            if trainer.step == trainer.total_steps:
                return  # what is left is to publish, whoever asks for a stop
            due = time.monotonic() - self._saved_at >= self._checkpoint_every
            if due or self._signal:
                self._save(trainer, identity)
            if self._signal:
                self.log(f"interrupted after step {trainer.step}")
                raise Interrupted(self._signal)

        with self._heeding_signals():
            trainer.train(after_step=after_step)
        return "done", None

    def _prepared(self) -> Path | None:
        """The folder of what the method has prepared, if it prepares anything."""
        if not prepares(self.cell):
            return None
        folder = prepared_folder(self.results, self.cell)
        made = preparation.read(folder, preparation.identity_of(self.cell, self.results))
        if made.status == "failed":
            raise MethodError(f"its preparation failed: {made.reason}")
        self._about["preparation"] = made.cost
        return folder

    def _resume(self, trainer: Trainer, identity: dict[str, str]) -> None:
        """Go on from the newest sound checkpoint of the same cell and the same code."""
        saved = checkpoint.latest(self.partial / record.CHECKPOINTS, warn=self.log)
        if saved is None:
            return
        if saved["identity"] != identity:
            self.log("the checkpoint is of other options or other code: training from the beginning")
            return
        trainer.load(saved["trainer"])
        self._interruptions = saved["interruptions"] + 1
        self.log(f"goes on after step {trainer.step}")

    def _save(self, trainer: Trainer, identity: dict[str, str]) -> None:
        state = {
            "identity": identity,
            "interruptions": self._interruptions,
            "trainer": trainer.state(),
        }
        checkpoint.save(self.partial / record.CHECKPOINTS, trainer.step, state)
        self._saved_at = time.monotonic()

    @contextmanager
    def _heeding_signals(self) -> Any:
        """SIGINT and SIGTERM ask for a stop after the step; the second one stops at once."""

        def ask(number: int, frame: FrameType | None) -> None:
            self._signal = number
            for heeded, handler in before.items():
                signal.signal(heeded, handler)

        before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _publish(self, status: Status, reason: str | None) -> Record:
        changed = [kind for kind, digest in sources(self.cell).items() if digest != self._sources[kind]]
        if changed:
            raise UserError(
                f"the file of the {' and of the '.join(changed)} was changed while {self.cell.path} was "
                "trained, so its result is not published: start it again"
            )
        trainer = self.trainer
        curve = trainer.curve if trainer else []
        made = Record(
            kind="inprocess",
            status=status,
            reason=reason,
            cell=self.cell.identity(),
            fingerprint=self.cell.fingerprint,
            result=record.result(curve),
            interruptions=self._interruptions,
            provenance={**self._provenance, "ended": now()},
            **self._about,
        )
        record.write(self.partial, self.target, made, curve, trainer.traffic if trainer else [])
        return made
