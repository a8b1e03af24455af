"""What the pipeline costs in addition to the training inside it, and what planning costs.

    python benchmarks/pipeline.py [--record]

Runs the demo from nothing to figures in a copy of the project, on one core. The seconds of training are those
that the records have for training and evaluation. So a quiet machine is needed. Prints:

- the processor seconds of the pipeline over those of the training (target <= 1.25);
- for each run of the first repetition that has a result, the processor seconds of its block beyond those of
  the training (target <= 0.15 times `import torch`);
- the processor seconds of `snakemake -n` of the suite `paper`, for each 1,000 cells (target <= 4). It is
  planned with one and with three times its repetitions;
- the most memory that planning takes (target <= 300 MB).

Planning takes longer the first time, because it checks the options against the plug-ins.

The target for a run is relative: 0.4 s on a machine on which `import torch` takes 2.7 s. Exits with 0 only if
all targets are met.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import pandas as pd
import record

from thinwire import record as run_record
from thinwire.plugins import ROOT

COPIED = ("thinwire", "methods", "models", "datasets", "config", "workflow", "profiles", "envs", "Snakefile")
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
    all_of_it = cost(project, [*PYTHON, "snakemake", "--cores", "1", "--quiet", "all"])[0]
    training, _ = trained(project)
    first = sorted(path for path in blocks(project) if path.endswith("/seed0"))
    for name in ("runs", "store"):
        shutil.rmtree(project / "results" / name)
    alone = sum(cost(project, [*PYTHON, "thinwire", "train", "demo", path])[0] for path in first)
    again, runs = trained(project)
    ratio, extra = all_of_it / training, (alone - again) / runs
    print(f"blocks: {alone:.1f} s for {again:.1f} s of training, {extra:.2f} s more for each of {runs} runs")
    limit = TARGET_IMPORTS * importing
    print(f"overhead of a run: {extra:.2f} s (target <= {limit:.2f}, which is {TARGET_IMPORTS:.2f} imports)")
    print(f"pipeline: {all_of_it:.1f} s for {training:.1f} s, ratio {ratio:.2f} (target <= {TARGET_RATIO})")
    return [extra <= limit, ratio <= TARGET_RATIO]


def of_planning(project: Path) -> list[bool]:
    """`snakemake -n` of a large suite."""
    (project / "results").mkdir(exist_ok=True)
    once = repetitions(project, "paper")
    met = []
    for times in (1, 3):
        repeat(project, "paper", once * times)
        command = [*PYTHON, "snakemake", "-n", "--quiet", "all", "--config", "suites=paper"]
        first, megabytes = cost(project, command)
        seconds, _ = cost(project, command)
        listed = subprocess.run(
            [*PYTHON, "thinwire", "cells", "paper"], cwd=project, capture_output=True, text=True, check=True
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


def cost(project: Path, command: list[str]) -> tuple[float, float]:
    """The processor seconds of a command with its children, and its peak memory in MB."""
    process = subprocess.Popen(command, cwd=project, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status):
        raise SystemExit(f"{' '.join(command)} failed:\n{said.decode(errors='replace')}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1000


def blocks(project: Path) -> set[str]:
    """The paths of the blocks of the demo that have records."""
    folder = project / "results/runs/demo"
    found = [path.relative_to(folder).parts for path in folder.rglob(run_record.RUN)]
    return {"/".join((dataset, model, size, seed)) for dataset, model, _, size, seed, _ in found}


def trained(project: Path) -> tuple[float, int]:
    """Seconds of training, evaluation and preparation in all records of the demo, and the number of runs."""
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
