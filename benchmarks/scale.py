"""What thousands of records cost those who read them: `thinwire collect`, `verify` and `page`.

    python benchmarks/scale.py [--records 5000] [--record]

Copies the project, and gives the suite `laptop` as many repetitions as it needs for so many cells. Each cell
gets a record, which is the archived one of the same cell, if need be under another repetition. Then each
command runs, first with a fifth of the records and then with all. Prints, for each command:

- its processor seconds, with its imports (targets for 5,000 records: 15, 25 and 10);
- its peak memory (targets: 300, 750 and 750 MB), and by how much more it is than with a fifth of the records,
  over what the rows of the added records take as data frames of the collected files.

`verify` also makes the page again, and compares it. The targets keep what has been reached on a machine that
imports torch in 1.4 s. The aim for each command is 10 s, and memory that grows by no more than the data
frames. Exits with 0 only if all targets are met.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import pandas as pd
import pipeline
import record

from thinwire.audit.archive import unpacked
from thinwire.config.expand import cells
from thinwire.config.suite import load
from thinwire.plugins import ROOT
from thinwire.report.report_files import CURVES, SUMMARY, TRAFFIC

# Processor seconds for 5,000 records, and MB.
TARGETS = {"collect": (15.0, 300.0), "verify": (25.0, 750.0), "page": (10.0, 750.0)}
SUITE = "laptop"
COMMANDS = (("collect", SUITE), ("report", SUITE), ("page",), ("verify", "results"))

# Runs in the copy of the project, whose suite it reads.
WRITE = """
import sys
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq

from thinwire.config.expand import cells
from thinwire.config.cell import sources_of_many
from thinwire.records import record
from thinwire.train.result_files import record_folder

archived, results, sources_of = Path(sys.argv[1]), Path("results"), sources_of_many()
for cell in cells(sys.argv[2]):
    made_from = record_folder(archived, replace(cell, repetition=cell.repetition % int(sys.argv[3])))
    run = record.read(made_from / record.RUN)
    other = {
        "cell": cell.identity(),
        "fingerprint": cell.fingerprint,
        "provenance": {**run.provenance, "sources_sha256": sources_of(cell), "seed": cell.seed},
    }
    curve, traffic = (pq.read_table(made_from / name).to_pylist() for name in (record.CURVE, record.TRAFFIC))
    scratch = results / "scratch"
    scratch.mkdir(parents=True)
    record.write_aside(scratch, run.model_copy(update=other), curve, traffic)
    record.put_in_place(scratch, record_folder(results, cell))
"""


class Measured(NamedTuple):
    """What the commands cost with so many records, in processor seconds and MB; and the collected tables."""

    records: int
    costs: dict[str, tuple[float, float]]
    table_megabytes: float


def main(arguments: argparse.Namespace) -> int:
    """Measure, and report whether the targets are met."""
    with tempfile.TemporaryDirectory() as folder, unpacked(ROOT / "results" / "reference") as archived:
        project = pipeline.copy(Path(folder))
        few = measured(project, archived, arguments.records // 5)
        many = measured(project, archived, arguments.records)
    met = []
    for name, (most_seconds, most_megabytes) in TARGETS.items():
        seconds, megabytes = many.costs[name]
        limit = most_seconds * many.records / 5000
        growth = (megabytes - few.costs[name][1]) / (many.table_megabytes - few.table_megabytes)
        print(f"{name} of {many.records} records: {seconds:.1f} s of processor time (target <= {limit:.1f})")
        grown = f"{megabytes:.0f} MB, which grow by {growth:.1f} tables"
        print(f"{name}: {grown} (target <= {most_megabytes:.0f} MB)")
        met += [seconds <= limit, megabytes <= most_megabytes]
    print(f"the tables take {many.table_megabytes:.0f} MB")
    print(f"{sum(met)} of {len(met)} targets are met")
    return int(not all(met))


def write(project: Path, archived: Path, records: int) -> None:
    """Give a copy of the project about so many records of the suite, of which there are archived ones."""
    repetitions = load(SUITE).repetitions
    pipeline.repeat(project, SUITE, round(records * repetitions / len(cells(SUITE))))
    shutil.rmtree(project / "results", ignore_errors=True)
    command = [sys.executable, "-c", WRITE, str(archived), SUITE, str(repetitions)]
    subprocess.run(command, cwd=project, check=True)


def measured(project: Path, archived: Path, records: int) -> Measured:
    """Write records, and run the commands."""
    write(project, archived, records)
    costs = {
        command[0]: pipeline.cost(project, [*pipeline.PYTHON, "thinwire", *command]) for command in COMMANDS
    }
    results = project / "results"
    tables = [pd.read_csv(results / SUMMARY)]
    tables += [pd.read_parquet(results / name) for name in (CURVES, TRAFFIC)]
    megabytes = sum(table.memory_usage(deep=True).sum() for table in tables) / 1e6
    return Measured(len(tables[0]), costs, megabytes)


def options(parser: argparse.ArgumentParser) -> None:
    """The option of this benchmark."""
    parser.add_argument("--records", type=int, default=5000, help="how many records are read (default: 5000)")


if __name__ == "__main__":
    sys.exit(record.run(main, options))
