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
    """Make everything that follows from the archived records and the collected files.

    Args:
        reference: the folder of results that is committed.
        processes: how many suites are reported at the same time.

    Returns:
        Sentences about figures that are not drawn, and about suites whose claims cannot be judged.

    Raises:
        UserError: a file is missing, damaged or changed.
    """
    suites = record_archive.archived(reference)
    with record_archive.unpacked(reference) as view:
        # Fresh processes, because a fork would share the state of the libraries that draw.
        with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
            sentences = [*pool.map(partial(report, results=view), suites)]
        table, left_out = claims.table(view)
        claims.write(table, view)
        page.write(view)
        paper.paper(view)
        record_archive.hand_over(view, reference)
    all_sentences = [*(sentence for of_suite in sentences for sentence in of_suite), *left_out]
    return [sentence.replace(str(view), str(reference)) for sentence in all_sentences]
