"""A project in a folder of its own, with suites, a model and a method of its own, and its command line."""

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import yaml

from gpu_parts.part import Place
from thinwire.plugins import ROOT
from thinwire.records import record
from thinwire.train.result_files import runs_folder

SUITE = "on_this_device"
# Images of 1 x 8 x 8 become WIDTH maps of that size, which are far more memory than the weights.
_WIDE = '''"""A convolution with many output maps, and their means."""

import torch.nn as nn

import thinwire


class Model(thinwire.Model):
    def __init__(self, config, shape, classes):
        super().__init__(config, shape, classes)
        self.convolution = nn.Conv2d(shape[0], WIDTH, 3, padding=1)
        self.classifier = nn.Linear(WIDTH, classes)

    def forward(self, images):
        return self.classifier(self.convolution(images).mean((2, 3)))

    def stages(self):
        return [[self.convolution], [self.classifier]]
'''
# The process that started the run gets the signal, as from Slurm or a terminal.
_INTERRUPTING = '''"""Synchronous SGD that lets its run be interrupted once, where a variable names a file."""

import os
import signal
from pathlib import Path

from thinwire import plugins

Ssgd = plugins.get("method", "ssgd").load()


class Method(Ssgd):
    equals_ssgd = []
    tuned_as_ssgd = False
    ablations = []
    provenance = ()

    def sync_gradients(self):
        super().sync_gradients()
        note = os.environ.get("INTERRUPT_ONCE")
        leads = self.run.world.rank == 0
        if note and leads and self.run.step == STEP and not Path(note).exists():
            Path(note).touch()
            os.kill(os.getppid(), signal.SIGTERM)
'''


def records(results: Path) -> list[Path]:
    """What is published of the runs of a folder of results."""
    return list(runs_folder(results).rglob(record.RUN))


class Project:
    """A copy of this one, with digits and nothing else.

    Args:
        folder: that is empty.
        place: on which the workers compute.
        width: output maps of the model `wide`.
        interrupted_step: in which the method `interrupting` asks for an interruption.
        recipe: what differs from the suite's recipe.
    """

    def __init__(
        self,
        folder: Path,
        place: Place,
        width: int = 16,
        interrupted_step: int = 0,
        recipe: dict[str, object] | None = None,
    ) -> None:
        self.folder = folder
        for name in ("thinwire", "methods", "models", "datasets"):
            shutil.copytree(ROOT / name, folder / name)
        (folder / "models" / "wide.py").write_text(_WIDE.replace("WIDTH", str(width)))
        method = _INTERRUPTING.replace("STEP", str(interrupted_step))
        (folder / "methods" / "interrupting.py").write_text(method)
        suite = {
            "title": "digits on this device",
            "seed": 3,
            "repetitions": 1,
            "datasets": ["digits"],
            "models": {"cnn": {}, "wide": {}},
            "methods": {"ssgd": {}, "interrupting": {}},
            "workers": [2],
            "device": place.device.type,
            "recipe": {
                "epochs": 2,
                "batch": 64,
                "batch_per": "run",
                "optimizer": {"lr": 0.1, "momentum": 0.9},
                "schedule": {"name": "constant"},
                **(recipe or {}),
            },
        }
        (folder / "config").mkdir()
        self._write(SUITE, suite)
        # Ranks that share a GPU.
        self._write(f"{SUITE}_by_gloo", suite | {"transport": "processes", "backend": "gloo"})
        self.thinwire("data", "digits", "--results", "results")

    def _write(self, name: str, suite: dict[str, object]) -> None:
        (self.folder / "config" / f"{name}.yaml").write_text(yaml.safe_dump(suite))

    def thinwire(
        self, *arguments: str, expect: int = 0, enter: Callable[[], None] | None = None, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command of thinwire in this project.

        Args:
            arguments: of the command line.
            expect: the exit code.
            enter: called in the process before the command begins.
            variables: of the environment, beside those of this process.

        Raises:
            RuntimeError: the exit code is another one; with the last line of what it said.
        """
        answer = subprocess.run(
            [sys.executable, "-m", "thinwire", *arguments],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": self._path(), **variables},
            capture_output=True,
            text=True,
            check=False,
            preexec_fn=enter,
        )
        if answer.returncode != expect:
            last = (answer.stderr.strip() or answer.stdout.strip()).splitlines()[-1:]
            raise RuntimeError(
                f"thinwire {shlex.join(arguments)} ended with {answer.returncode}, not {expect}: {last}"
            )
        return answer

    def _path(self) -> str:
        """The folders of modules, with this project's engine in place of the other."""
        others = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
        return os.pathsep.join([str(self.folder), *(each for each in others if each != str(ROOT))])
