"""Adds suites to the results that are committed."""

import shutil
from collections.abc import Iterable
from pathlib import Path

from thinwire.config.cell import Cell
from thinwire.config.expand_suite import cells, cells_as_it_ran
from thinwire.errors import UserError
from thinwire.record import RUN
from thinwire.reference import record_archive
from thinwire.report.collect import collect_cells
from thinwire.simulation import simulated_file
from thinwire.train.result_folders import record_folder

# Results of `thinwire required_rate` and `thinwire hsgd_ratio`, which belong to no suite.
_SIMULATED = ("tables/{}.csv", "figures/{}.pdf", "figures/{}.png")


def archive(suites: Iterable[str], results: Path, reference: Path) -> None:
    """Copy the records and simulated times of suites, and collect all that are in the archives then.

    Raises:
        UserError: a record is missing, damaged or out of date, also one of a suite that was there before.
    """
    for suite in suites:
        record_archive.pack(results, suite, reference)
        _copy(simulated_file.path_of(results, suite), simulated_file.path_of(reference, suite))
    for name in ("required_rate", "hsgd_ratio"):
        for pattern in _SIMULATED:
            _copy(results / pattern.format(name), reference / pattern.format(name))
    with record_archive.unpacked(reference) as view:
        archived = [cell for suite in record_archive.archived(reference) for cell in _cells(suite, view)]
        left_out = collect_cells(archived, archived, view)
        if left_out:
            raise UserError(left_out[0])
        record_archive.hand_over(view, reference)


def _cells(suite: str, unpacked: Path) -> list[Cell]:
    """The cells of an archived suite. Methods that were added after it was archived have no records there."""
    there = [cell for cell in cells(suite) if (record_folder(unpacked, cell) / RUN).is_file()]
    return cells_as_it_ran(suite, {cell.method.label for cell in there})


def _copy(path: Path, to: Path) -> None:
    if path.exists():
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, to)
