"""A copy of the project whose snakemake sends jobs to the Slurm of the tests, beside others that do."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import yaml

from tests.commands import succeeded
from tests.slurm.cluster import Slurm
from tests.waiting import SECONDS, until
from tests.workflow.conftest import HELD, Project
from thinwire.plugins import ROOT
from thinwire.records import record

# What a user sets in slurm/config.yaml, and what spares a small grid long pauses.
SETTINGS = {
    'slurm_account: ""': f"slurm_account: {Slurm.account}",
    'slurm_partition: ""': "slurm_partition: gpu",
    # Several grids are there at once.
    "exclusive: true": "exclusive: false",
    "mem_mb: 0": "mem_mb: 1000",
    "runtime: min(360 * attempt, 1440)": "runtime: 50",
    "status-checks: 60": "status-checks: 1",
    "latency-wait: 60": "latency-wait: 5",
}


class Pipeline(Project):
    """One copy, with one suite, `grid`, of workers that are processes; its gate is closed."""

    def __init__(
        self,
        folder: Path,
        *methods: str,
        epochs: int = 2,
        size: str = "{workers: 2, nodes: 2}",
        repetitions: int = 1,
    ) -> None:
        super().__init__(folder)
        shutil.copytree(ROOT / "slurm", folder / "slurm")
        for before, after in SETTINGS.items():
            self.edit("slurm/config.yaml", before, after)
        self.write("methods/held.py", HELD)
        self.gate.close()
        # A run that waits at the gate does not hang.
        more = "transport: processes\nhang_seconds: 3600\ncheckpoint_every_seconds: 0\n"
        more += f"baseline: {methods[0]}\n"
        self.suite("grid", f"{{{': , '.join(methods)}: }}", epochs, f"[{size}]", more)
        self.edit("config/grid.yaml", "repetitions: 1", f"repetitions: {repetitions}")
        self.runs = len(methods) * repetitions * len(yaml.safe_load(f"[{size}]"))

    def edit(self, path: str, before: str, after: str) -> None:
        """Replace a text that occurs exactly once in a file."""
        text = (self.folder / path).read_text()
        assert text.count(before) == 1, f"{path}: {before}"
        self.write(path, text.replace(before, after))

    def start(self) -> None:
        """Start snakemake, without waiting for it."""
        command = [sys.executable, "-m", "snakemake", "--profile", "slurm", "--config", "suites=grid"]
        with (self.folder / "output.txt").open("a") as output:
            self.process = subprocess.Popen(
                command,
                cwd=self.folder,
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def until_published(self) -> None:
        """Wait until the jobs have published all records; snakemake may take a minute more to notice."""
        pattern = f"results/runs/grid/*/*/*/*/*/{record.RUN}"
        until("all is published", lambda: len([*self.folder.glob(pattern)]) == self.runs or self._ended())

    def until_it_ends(self) -> None:
        """Wait until snakemake has ended successfully."""
        assert self.process.wait(timeout=SECONDS) == 0, f"{self.output}\n{self.log}"

    def kill(self) -> None:
        """Kill snakemake as a crash does, unless it has ended; its jobs continue."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    @property
    def output(self) -> str:
        """The output of snakemake so far."""
        return (self.folder / "output.txt").read_text()

    @property
    def log(self) -> str:
        """The output of the last job of each block so far."""
        logs = sorted((self.folder / "results/logs/train").rglob("*.txt"))
        return "\n".join(path.read_text() for path in logs)

    @property
    def failed_jobs(self) -> str:
        """What Slurm has kept of jobs that failed."""
        return "\n".join(path.read_text() for path in (self.folder / ".snakemake/slurm_logs").rglob("*.log"))

    def log_of(self, method: str, size: str = "*") -> str:
        """The log of the runs of a method so far, whether they are published or not."""
        logs = [*self.folder.glob(f"results/*/grid/*/*/{method}/{size}/*/{record.LOG}")]
        return "\n".join(path.read_text() for path in logs)

    def record(self, method: str, seed: int = 0, size: str = "w*n2") -> record.Record:
        return record.read(self._folder(method, seed, "results", size) / record.RUN)

    def curve(self, method: str, seed: int = 0, results: str = "results") -> pd.DataFrame:
        """Without its clocks."""
        curve = pd.read_parquet(self._folder(method, seed, results) / record.CURVE)
        return curve.drop(columns=[name for name in curve if name.endswith("_seconds")])

    def traffic(self, method: str, seed: int = 0, results: str = "results") -> pd.DataFrame:
        return pd.read_parquet(self._folder(method, seed, results) / record.TRAFFIC)

    def _folder(self, method: str, seed: int, results: str, size: str = "w*n2") -> Path:
        (found,) = (self.folder / results / "runs/grid").glob(f"*/*/{method}/{size}/seed{seed}")
        return found

    def alone(self, cell: str, results: str, *options: str) -> None:
        """Train a cell without Slurm, with results of its own."""
        assert self.python("thinwire", "data", "digits", "--results", results).returncode == 0
        succeeded(self.python("thinwire", "run", "grid", cell, "--results", results, *options))

    def until_it_is_held(self) -> None:
        """Wait until the run of the method `held` waits at the gate; by then all ranks have a checkpoint."""
        until("a run waits at the gate", lambda: self.gate.reached() or self._ended())

    def until_log(self, text: str, method: str = "held") -> None:
        until(f"the log of {method} has {text!r}", lambda: text in self.log_of(method) or self._ended())

    def _ended(self) -> bool:
        if self.process.poll() is not None:
            raise AssertionError(f"snakemake has ended:\n{self.output}\n{self.log}")
        return False

    def jobs(self, slurm: Slurm) -> list[str]:
        """Its jobs that are in the queue."""
        lines = slurm("squeue", "--noheader", "--array", "--format=%i %Z").splitlines()
        return [line.split()[0] for line in lines if line.split()[1] == str(self.folder)]
