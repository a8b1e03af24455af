"""A copy of the project with a tiny suite, which tests run, edit and break."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests import commands, gate, waiting
from tests.commands import succeeded
from thinwire.plugins import ROOT

TINY = """
title: Tiny
seed: 1
repetitions: 1
datasets: [digits]
models: {cnn: {options: {width: 2}}}
methods: METHODS
workers: WORKERS
recipe:
  epochs: EPOCHS
  batch: 64
  batch_per: run
  optimizer: {lr: 0.1}
"""


# Every method; those that prepare something do so in a few seconds.
EVERY = """
  "*":
  mp2: {options: {predictor_epochs: 1, bsp_workers: 2}}
  wnn:
    options:
      {interval_epochs: 0.2, recorded_epochs: 4, recorded_batch: 64, forecaster_steps: 20, windows: 1000}
"""

# The beginning of methods that go wrong.
HEAD = "import os, signal\nimport thinwire\n\n\nclass Method(thinwire.Method):\n"

# Waits at the gate from the second epoch on. By then every worker has saved a checkpoint, if the suite asks
# for one at every look. That epoch ends with another look, at which a signal is heeded, as a third follows.
HELD = '''"""Top-k that waits at the gate."""

import gate
from thinwire import plugins


class Method(plugins.get("method", "top_k").load()):
    def sync_weights(self):
        super().sync_weights()
        if self.run.epoch >= 1 and self.run.world.rank == 0:
            gate.wait()
'''
HELD_EPOCHS = 3


class Project:
    """The copy."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.gate = gate.Gate(folder)
        for name in ("thinwire", "methods", "models", "datasets", "config", "workflow", "envs"):
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "Snakefile", folder)
        (folder / "profiles").symlink_to((ROOT / "profiles").readlink())
        shutil.copy(gate.__file__, folder)
        self.suite("tiny", EVERY)

    def write(self, path: str, text: str) -> None:
        (self.folder / path).write_text(text)

    def suite(self, name: str, methods: str, epochs: int = 2, workers: str = "[2]", more: str = "") -> None:
        """Write a tiny suite."""
        text = TINY.replace("METHODS", methods).replace("EPOCHS", str(epochs)).replace("WORKERS", workers)
        self.write(f"config/{name}.yaml", text + more)

    def environment(self) -> dict[str, str]:
        """Variables for a command that imports the copy."""
        return {**os.environ, "PYTHONPATH": str(self.folder)}

    def python(self, *arguments: str) -> subprocess.CompletedProcess:
        return commands.python("-m", *arguments, folder=self.folder)

    def snakemake(self, *arguments: str, suite: str = "tiny") -> subprocess.CompletedProcess:
        """Run the pipeline of a suite; `tuning/NAME` tunes the suite NAME."""
        tuned = suite.removeprefix("tuning/")
        choice = f"suites={suite}" if tuned == suite else f"tune={tuned}"
        return self.python("snakemake", "--config", choice, *arguments)

    @contextmanager
    def held(self, *arguments: str) -> Iterator[subprocess.Popen[str]]:
        """Start `python -m ARGUMENTS`, and yield the process as soon as a run of it waits at the gate.

        At the end of the block, the process and all that it has started are always killed, and the gate is
        opened.
        """
        self.gate.close()
        try:
            with subprocess.Popen(
                [sys.executable, "-m", *arguments],
                cwd=self.folder,
                env=self.environment(),
                start_new_session=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            ) as process:
                try:
                    waiting.until("a run waits at the gate", lambda: self._has_reached(process))
                    yield process
                finally:
                    with suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
            self.until_nobody_is_left()
        finally:
            self.gate.open()

    def _has_reached(self, process: subprocess.Popen[str]) -> bool:
        if process.poll() is not None:
            output = "".join(process.communicate())
            raise AssertionError(f"it ended with {process.returncode} before it reached the gate:\n{output}")
        return self.gate.reached()

    def run_held(self, suite: str, cell: str, results: str = "results"):
        """A `thinwire run` that waits at the gate."""
        return self.held("thinwire", "run", suite, cell, "--results", results)

    def killed(self, suite: str) -> None:
        """Start the pipeline, kill all of it as soon as a run waits at the gate, and remove its lock."""
        with self.held("snakemake", "--config", f"suites={suite}"):
            pass
        # As documented, the lock of the dead pipeline is removed first.
        assert self.snakemake("--unlock", suite=suite).returncode == 0

    def until_nobody_is_left(self) -> None:
        """Wait until no process works in the copy; killed processes take a moment to end."""
        waiting.until("nobody works in the copy", lambda: not self.processes())

    def processes(self) -> list[int]:
        """The processes that work in the copy."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                ended = (entry / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
                if (entry / "cwd").readlink() == self.folder and not ended:
                    found.append(int(entry.name))
        return found

    def is_planned(self, suite: str = "tiny") -> bool:
        """Would a dry run start a job that trains?"""
        answer = succeeded(self.snakemake("-n", "--quiet", "host", suite=suite))
        return "output: results/runs/" in answer.stdout + answer.stderr

    def trained(self, suite: str = "tiny", *options: str) -> list[str]:
        """The methods that the pipeline has trained now; the other records are those of earlier runs."""
        before = self.records(suite)
        succeeded(self.snakemake(*options, suite=suite))
        made = (path for path, content in self.records(suite).items() if content != before.get(path))
        return sorted(path.partition("/")[0] for path in made)

    def records(self, suite: str = "tiny") -> dict[str, bytes]:
        """Every record of the first repetition, by METHOD/SIZE; one that is made again has other times."""
        found = (self.folder / "results/runs" / suite).rglob("seed0/run.json")
        return {"/".join(path.parts[-4:-2]): path.read_bytes() for path in found}


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Project:
    return Project(tmp_path_factory.mktemp("project"))
