"""How many core minutes the runs of a suite have taken, by their records.

    python benchmarks/suite_minutes.py SUITE [--results DIR] [--record]

Adds the seconds of training, evaluation and harness of all runs, and those of preparations. Each run computes
on one core, so only suites are counted whose workers take turns in one process on CPUs. With `--record`, the
row of the suite in `benchmarks/records/suite_minutes.csv` is written again.
"""

import argparse
from pathlib import Path

import pandas as pd

from thinwire.base.errors import UserError
from thinwire.base.files import write_text
from thinwire.base.folders import DEFAULT_RESULTS
from thinwire.config.expand import cells
from thinwire.plugins import ROOT
from thinwire.records import record
from thinwire.train.result_files import record_folder

MINUTES = ROOT / "benchmarks" / "records" / "suite_minutes.csv"


def core_minutes(suite: str, results: Path) -> dict[str, object]:
    """The row of a suite.

    Raises:
        UserError: a record is missing, or a run had several processes or a GPU.
    """
    grid = cells(suite)
    if any(cell.has_ranks or cell.device != "cpu" for cell in grid):
        raise UserError(f"{suite}: core minutes are those of runs in one process on CPUs")
    runs = [(cell, record.read(record_folder(results, cell) / record.RUN)) for cell in grid]
    seconds = sum(sum(run.result.seconds.model_dump().values()) for _, run in runs if run.result)
    prepared = {cell.preparation: run.preparation for cell, run in runs if run.preparation}
    seconds += sum(cost.seconds for cost in prepared.values())
    machines = sorted({str(run.provenance["hardware"]["processor"]) for _, run in runs})
    return {
        "suite": suite,
        "runs": len(grid),
        "core_minutes": round(seconds / 60, 1),
        "processor": " and ".join(machines),
    }


def main() -> None:
    """Print the row, and keep it if asked to."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("suite", metavar="SUITE")
    parser.add_argument("--results", type=Path, default=DEFAULT_RESULTS, metavar="DIR")
    parser.add_argument("--record", action="store_true", help="write the row into the record")
    arguments = parser.parse_args()
    row = pd.DataFrame([core_minutes(arguments.suite, arguments.results)])
    print(row.to_string(index=False))
    if arguments.record:
        kept = pd.read_csv(MINUTES) if MINUTES.exists() else row[:0]
        rows = pd.concat([kept[kept.suite != arguments.suite], row]).sort_values("suite")
        write_text(MINUTES, rows.to_csv(index=False))


if __name__ == "__main__":
    main()
