"""The results that are committed: adds suites to them, and makes again all that follows from them."""

import shutil
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from thinwire.audit.archive import archived, hand_over, pack, unpacked
from thinwire.config.cell import Cell
from thinwire.config.expand_suite import cells, cells_as_it_ran
from thinwire.errors import UserError
from thinwire.page import page
from thinwire.paper import paper
from thinwire.record import RUN
from thinwire.report.claims import table as claims
from thinwire.report.collect import collect_cells
from thinwire.report.report import report
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
        pack(results, suite, reference)
        _copy(simulated_file.path_of(results, suite), simulated_file.path_of(reference, suite))
    for name in ("required_rate", "hsgd_ratio"):
        for pattern in _SIMULATED:
            _copy(results / pattern.format(name), reference / pattern.format(name))
    with unpacked(reference) as view:
        kept = [cell for suite in archived(reference) for cell in _cells(suite, view)]
        left_out = collect_cells(kept, kept, view)
        if left_out:
            raise UserError(left_out[0])
        hand_over(view, reference)


def rebuild(reference: Path, processes: int) -> list[str]:
    """Make everything that follows from the archived records and the collected files.

    Args:
        reference: the folder of results that is committed.
        processes: how many suites are reported at the same time.

    Returns:
        Sentences about figures that are not drawn, and about suites whose claims cannot be judged.

    Raises:
        UserError: a file is missing, damaged or changed.
    """
    suites = archived(reference)
    with unpacked(reference) as view:
        # Fresh processes, because a fork would share the state of the libraries that draw.
        with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
            sentences = [*pool.map(partial(report, results=view), suites)]
        table, left_out = claims.table(view)
        claims.write(table, view)
        page.write(view)
        paper.paper(view)
        hand_over(view, reference)
    all_sentences = [*(sentence for of_suite in sentences for sentence in of_suite), *left_out]
    return [sentence.replace(str(view), str(reference)) for sentence in all_sentences]


def _cells(suite: str, unpacked: Path) -> list[Cell]:
    """The cells of an archived suite. Methods that were added after it was archived have no records there."""
    there = [cell for cell in cells(suite) if (record_folder(unpacked, cell) / RUN).is_file()]
    return cells_as_it_ran(suite, {cell.method.label for cell in there})


def _copy(path: Path, to: Path) -> None:
    if path.exists():
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, to)
