"""One cell from beginning to end: data, training, checkpoints, the record.

What goes wrong inside the method or the model is a result, and recorded as such. What is wrong around it
(no data, no room on the disk) is not: it is raised, and the run goes on from its last checkpoint the next
time.
"""

import os
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
from thinwire.cluster import Cluster
from thinwire.config.cell import Cell
from thinwire.data import arrays
from thinwire.data.arrays import Data
from thinwire.errors import MethodError, UserError
from thinwire.files import sha256, writing
from thinwire.options import as_dict, resolve
from thinwire.provenance import now, provenance
from thinwire.record import Record
from thinwire.train.places import data_folder, partial_folder, record_folder
from thinwire.train.trainer import Diverged, Task, Trainer

# The share of the training set that is held out for tuning.
HELD_OUT = 0.1
Report = Callable[[Trainer], None]


class Interrupted(Exception):
    """A signal asked the run to stop; it is saved, and goes on the next time."""

    def __init__(self, number: int) -> None:
        super().__init__(f"interrupted by {signal.Signals(number).name}")
        self.number = number


def deterministic(device: torch.device) -> None:
    """The same bits every time: one thread, deterministic kernels."""
    if device.type == "cuda":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.backends.cudnn.benchmark = False
    torch.set_num_threads(1)
    # What use_deterministic_algorithms(True) does, without the seconds that it takes to import inductor.
    torch.set_deterministic_debug_mode("error")


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
        self._interruptions = 0
        with writing(results):
            self.partial.mkdir(parents=True, exist_ok=True)
            self._log = (self.partial / record.LOG).open("a", buffering=1)

    def run(self, report: Report) -> Record:
        """Train the cell and publish its record; `report` is called after every step.

        Raises:
            UserError: something around the run is wrong; nothing is lost.
            Interrupted: the state is saved.
        """
        self.log(f"{self.cell.suite}/{self.cell.path}, fingerprint {self.cell.fingerprint}")
        device = _device(self.cell.device)
        deterministic(device)
        self._provenance |= provenance(device)
        data = self._load_data()
        self._provenance["data_sha256"] = data.checksums
        try:
            self._train(data, device, report)
        except Diverged as error:
            return self._publish("diverged", str(error))
        except (MethodError, plugins.PluginError) as error:
            return self._publish("failed", str(error))
        except (UserError, Interrupted):
            raise
        except Exception as error:
            self.log(traceback.format_exc())
            return self._publish("failed", f"{type(error).__name__}: {error}")
        return self._publish(*self._outcome)

    def log(self, line: str) -> None:
        """A line for the run's log, with the time."""
        print(now(), line, file=self._log)

    def _load_data(self) -> Data:
        dataset = plugins.get("dataset", self.cell.dataset).load()()
        data = arrays.load(data_folder(self.results, self.cell.dataset), dataset)
        return data.held_out(HELD_OUT) if self.cell.evaluate_on == "held_out" else data

    def _train(self, data: Data, device: torch.device, report: Report) -> None:
        cell = self.cell
        method_plugin, model_plugin = (
            plugins.get("method", cell.method.use),
            plugins.get("model", cell.model.use),
        )
        sources = {p.kind: sha256(p.path) for p in (method_plugin, model_plugin)}
        self._provenance["sources_sha256"] = sources
        method, model = method_plugin.load(), model_plugin.load()
        config = resolve(method, cell.method.options)
        model_config = resolve(model, cell.model.options)
        self._about["method_options"] = as_dict(config)
        self._about["model_options"] = as_dict(model_config)
        task = Task(
            build_model=lambda: model(model_config, data.shape, data.classes),
            data=data,
            recipe=cell.recipe,
            cluster=Cluster(cell.workers, cell.nodes),
            seed=cell.seed,
            device=device,
        )
        self.trainer = trainer = Trainer(task, method, config)
        params = trainer.workers[0].run.params
        self._about["parameters"] = sum(param.tensor.numel() for param in params)
        self._about["total_steps"] = trainer.total_steps
        self._about["steps_per_epoch"] = trainer.steps_per_epoch
        reason = trainer.skip()
        if reason:
            self._outcome: tuple[str, str | None] = ("skipped", reason)
            return
        trainer.setup()
        identity = {"fingerprint": cell.fingerprint, **sources}
        self._resume(trainer, identity)

        def after_step(trainer: Trainer) -> None:
            report(trainer)
            due = time.monotonic() - self._saved_at >= self._checkpoint_every
            if trainer.step < trainer.total_steps and (due or self._signal):
                self._save(trainer, identity)
            if self._signal:
                self.log(f"interrupted after step {trainer.step}")
                raise Interrupted(self._signal)

        with self._heeding_signals():
            trainer.train(after_step=after_step)
        self._outcome = ("done", None)

    def _resume(self, trainer: Trainer, identity: dict[str, str]) -> None:
        """Go on from the newest sound checkpoint of the same cell and the same code."""
        saved = checkpoint.latest(self.partial / "checkpoints", warn=self.log)
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
        checkpoint.save(self.partial / "checkpoints", trainer.step, state)
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

    def _publish(self, status: Any, reason: str | None) -> Record:
        self.log(f"{status}{': ' + reason if reason else ''}")
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
        self._log.close()
        record.discard(self.partial / "checkpoints")
        record.write(self.partial, self.target, made, curve, trainer.traffic if trainer else [])
        return made


def _device(name: str) -> torch.device:
    if name == "cuda" and not torch.cuda.is_available():
        raise UserError(
            "the suite asks for a GPU (device: cuda) and torch finds none here: set device: cpu, or run "
            "it where there is one"
        )
    return torch.device(name)
