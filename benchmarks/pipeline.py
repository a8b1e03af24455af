"""What the pipeline costs in addition to the training inside it, and what planning costs.

    python benchmarks/pipeline.py [--record]

Runs the demo from nothing to its collected results and to W&B, in a copy of the project and on one core. The
seconds of training are those that the records have for training and evaluation. So a quiet machine is needed.
Prints:

- the processor seconds of the pipeline over those of the training (target <= 1.25);
- the processor seconds of what is made of the results: the simulation, and tables and figures;
- the processor seconds that a run adds to its block, beyond those of its training (target <= 0.15 times
  `import torch`). For this, each block of the first repetition is run twice: whole, and with one run only;
- the processor seconds of `snakemake -n` of the suite `paper/time`, for each 1,000 cells (target <= 4). It is
  planned with one and with three times its repetitions;
- the most memory that planning takes (target <= 300 MB).

Planning takes longer the first time, because it checks the options against the plug-ins.

The target for a run is relative: 0.4 s on a machine on which `import torch` takes 2.7 s. Exits with 0 only if
all targets are met.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import pandas as pd
import record

from thinwire.plugins import ROOT
from thinwire.records import record as run_record

COPIED = ("thinwire", "methods", "models", "datasets", "config", "workflow", "envs")
TARGET_RATIO = 1.25
TARGET_IMPORTS = 0.4 / 2.7
TARGET_SECONDS = 4.0
TARGET_MEGABYTES = 300
PYTHON = [sys.executable, "-m"]


def main(arguments: argparse.Namespace) -> int:
    """Measure, and report whether the targets are met."""
    with tempfile.TemporaryDirectory() as folder:
        project = copy(Path(folder))
        met = [*of_runs(project), *of_planning(project)]
    print(f"{sum(met)} of {len(met)} targets are met")
    return int(not all(met))


def of_runs(project: Path) -> list[bool]:
    """The pipeline against the training inside it."""
    importing = median(cost(project, [sys.executable, "-c", "import torch"])[0] for _ in range(3))
    print(f"import torch: {importing:.2f} s of processor time")
    command = [*PYTHON, "snakemake", "results/summary.csv", "--cores", "1", "--quiet", "all"]
    # The pipeline writes runs of W&B after the tables, which are counted below.
    all_of_it = sum(cost(project, words)[0] for words in (command, [*PYTHON, "thinwire", "track", "demo"]))
    training, _ = trained(project)
    simulating = cost(project, [*PYTHON, "thinwire", "simulate", "demo"])[0]
    reporting = cost(project, [*PYTHON, "thinwire", "report", "demo"])[0]
    first = sorted(path for path in blocks(project) if path.endswith("/seed0"))
    whole, runs = beyond_training(project, first)
    start, _ = beyond_training(project, first, "--only", "methods=ssgd")
    ratio, extra = all_of_it / training, (whole - start) / (runs - len(first))
    print(f"{len(first)} blocks: {whole:.1f} s beyond the training of {runs} runs, {start:.1f} s of one each")
    limit = TARGET_IMPORTS * importing
    print(f"overhead of a run: {extra:.2f} s (target <= {limit:.2f}, which is {TARGET_IMPORTS:.2f} imports)")
    print(
        f"pipeline: {all_of_it:.1f} s for {training:.1f} s of training, ratio {ratio:.2f} (target <= "
        f"{TARGET_RATIO})"
    )
    print(f"made of the results: simulation {simulating:.1f} s, tables and figures {reporting:.1f} s")
    return [extra <= limit, ratio <= TARGET_RATIO]


def beyond_training(project: Path, blocks: list[str], *only: str) -> tuple[float, int]:
    """Run blocks of the demo; gives the processor seconds beyond those of the training, and how many runs."""
    for name in ("runs", "store"):
        shutil.rmtree(project / "results" / name)
    whole = sum(cost(project, [*PYTHON, "thinwire", "train", "demo", path, *only])[0] for path in blocks)
    training, runs = trained(project)
    return whole - training, runs


def of_planning(project: Path) -> list[bool]:
    """`snakemake -n` of a large suite."""
    (project / "results").mkdir(exist_ok=True)
    once = repetitions(project, "paper/time")
    met = []
    for times in (1, 3):
        repeat(project, "paper/time", once * times)
        command = [*PYTHON, "snakemake", "-n", "--quiet", "all", "--config", "suites=paper/time"]
        first, megabytes = cost(project, command)
        seconds, _ = cost(project, command)
        listed = subprocess.run(
            [*PYTHON, "thinwire", "cells", "paper/time"],
            cwd=project,
            capture_output=True,
            text=True,
            check=True,
        )
        cells = sum("/seed" in line for line in listed.stdout.splitlines())
        print(f"planning {cells} cells for the first time: {first:.1f} s, which checks their options")
        each = seconds / cells * 1000
        print(
            f"planning {cells} cells: {each:.2f} s of processor time for 1,000 (target <= {TARGET_SECONDS})"
        )
        met.append(each <= TARGET_SECONDS)
        if times == 1:
            print(f"planning {cells} cells: {megabytes:.0f} MB (target <= {TARGET_MEGABYTES})")
            met.append(megabytes <= TARGET_MEGABYTES)
    return met


def copy(folder: Path) -> Path:
    """The project in a folder of its own, without results."""
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, folder)
    return folder


def repetitions(project: Path, suite: str) -> int:
    """How many repetitions a suite has."""
    match = re.search(r"^repetitions: (\d+)$", (project / f"config/{suite}.yaml").read_text(), re.MULTILINE)
    assert match is not None
    return int(match[1])


def repeat(project: Path, suite: str, number: int) -> None:
    """Give a suite another number of repetitions."""
    path = project / f"config/{suite}.yaml"
    path.write_text(re.sub(r"(?m)^repetitions: \d+$", f"repetitions: {number}", path.read_text()))


# A small process starts the command: a child's peak memory is at least that of the process that starts it.
MEASURE = """
import os, sys
child = os.spawnvp(os.P_NOWAIT, sys.argv[2], sys.argv[2:])
_, status, used = os.wait4(child, 0)
with open(sys.argv[1], "w") as file:
    print(used.ru_utime + used.ru_stime, used.ru_maxrss / 1000, file=file)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def cost(project: Path, command: list[str]) -> tuple[float, float]:
    """The processor seconds of a command with its children, and its peak memory in MB."""
    measured = project / "measured.txt"
    ended = subprocess.run(
        [sys.executable, "-ISc", MEASURE, measured, *command],
        cwd=project,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if ended.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{ended.stderr}")
    seconds, megabytes = map(float, measured.read_text().split())
    return seconds, megabytes


def blocks(project: Path) -> set[str]:
    """The paths of the blocks of the demo that have records."""
    folder = project / "results/runs/demo"
    found = [path.relative_to(folder).parts for path in folder.rglob(run_record.RUN)]
    return {"/".join((dataset, model, size, seed)) for dataset, model, _, size, seed, _ in found}


def trained(project: Path) -> tuple[float, int]:
    """Seconds of training and evaluation in all records of the demo, and the number of runs."""
    seconds, runs = 0.0, 0
    for path in (project / "results/runs/demo").rglob(run_record.RUN):
        made = run_record.read(path)
        if made.result is not None:
            last = pd.read_parquet(path.with_name(run_record.CURVE)).iloc[-1]
            seconds += last.train_seconds + last.eval_seconds
            runs += 1
    return seconds, runs


if __name__ == "__main__":
    sys.exit(record.run(main))
