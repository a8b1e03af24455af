"""Makes tables, figures, verdicts, the page and the paper again, from the committed results alone."""

from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

from thinwire.page import page
from thinwire.paper import paper
from thinwire.reference import record_archive
from thinwire.report.claims import table as claims
from thinwire.report.report import report


def rebuild(reference: Path, processes: int) -> list[str]:
    """Unpack the records and make everything that follows from them and the collected files.

    Args:
        reference: the folder of results that is committed.
        processes: how many suites are reported at the same time.

    Returns:
        Sentences about figures that are not drawn, and about suites whose claims cannot be judged.

    Raises:
        UserError: a file is missing, damaged or changed.
    """
    record_archive.unpack(reference)
    suites = record_archive.archived(reference)
    # Fresh processes, because a fork would share the state of the libraries that draw.
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        sentences = [*pool.map(partial(report, results=reference), suites)]
    table, left_out = claims.table(reference)
    claims.write(table, reference)
    page.write(reference)
    paper.paper(reference)
    return [*(sentence for of_suite in sentences for sentence in of_suite), *left_out]
