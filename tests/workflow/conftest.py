"""A copy of the project with a tiny suite, to be run, edited and broken."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

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
  mp2: {{options: {{predictor_epochs: 1, bsp_workers: 2}}}}
  wnn:
    options:
      {{interval_epochs: 0.2, recorded_epochs: 4, recorded_batch: 64, forecaster_steps: 20, windows: 1000}}
{}"""


class Project:
    """The copy."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("thinwire", "methods", "models", "datasets", "config", "workflow", "profiles", "envs"):
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "Snakefile", folder)
        self.suite("tiny", EVERY.format(""))

    def write(self, path: str, text: str) -> None:
        (self.folder / path).write_text(text)

    def suite(self, name: str, methods: str, epochs: int = 2, workers: str = "[2]", more: str = "") -> None:
        """Write a tiny suite."""
        text = TINY.replace("METHODS", methods).replace("EPOCHS", str(epochs)).replace("WORKERS", workers)
        self.write(f"config/{name}.yaml", text + more)

    def environment(self):
        return {**os.environ, "PYTHONPATH": str(self.folder)}

    def python(self, *arguments: str) -> subprocess.CompletedProcess:
        command = [sys.executable, "-m", *arguments]
        return subprocess.run(
            command, cwd=self.folder, env=self.environment(), capture_output=True, text=True, check=False
        )

    def snakemake(self, *arguments: str, suite: str = "tiny") -> subprocess.CompletedProcess:
        return self.python("snakemake", "--config", f"suites={suite}", *arguments)

    def killed(self, suite: str, when: Callable[[Path], bool]) -> None:
        """Start the pipeline, kill all of it as soon as `when(results)` holds, and remove its lock."""
        pipeline = subprocess.Popen(
            [sys.executable, "-m", "snakemake", "--config", f"suites={suite}"],
            cwd=self.folder,
            env=self.environment(),
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 120
        while not when(self.folder / "results"):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        os.killpg(pipeline.pid, signal.SIGKILL)
        pipeline.wait()
        # What the README says: the dead pipeline's lock is removed first.
        assert self.snakemake("--unlock", suite=suite).returncode == 0

    def planned(self, suite: str = "tiny") -> list[str]:
        """The runs that a dry run would make."""
        answer = self.snakemake("-n", "--quiet", "host", suite=suite)
        assert answer.returncode == 0, answer.stderr
        text = answer.stdout + answer.stderr
        found = {
            line.split(f"results/runs/{suite}/")[1].split(",")[0].removesuffix("/run.json")
            for line in text.splitlines()
            if line.strip().startswith("output: results/runs/")
        }
        return sorted(found)


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Project:
    return Project(tmp_path_factory.mktemp("project"))
