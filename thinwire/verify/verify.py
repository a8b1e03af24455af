"""Checks a folder of results: its records, what they were made from, and what was made of them."""

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from thinwire.errors import UserError
from thinwire.record import RUN
from thinwire.verify.collected_files import CollectedFiles
from thinwire.verify.inputs import problems_of_data, problems_of_preparations
from thinwire.verify.made_of_collected import problems_of_conclusions
from thinwire.verify.made_of_records import problems_of_reports
from thinwire.verify.records import RecordCheck, all_folders

# Goes through the folders of records, and may show how far it is.
Through = Callable[[list[Path]], Iterable[Path]]


class Verified(NamedTuple):
    """How many records there are, how many are sound, and a sentence for each problem."""

    records: int
    sound: int
    problems: list[str]
    edited: Counter[str]  # archived records by the plug-in whose file was edited since


def verify(results: Path, through: Through = iter, archived: bool = False) -> Verified:
    """Check all records under a folder of results.

    Args:
        results: the folder; nothing in it is changed.
        through: goes through the folders of records.
        archived: are the records kept, although their plug-ins are worked on?

    Raises:
        UserError: there is no record.
    """
    folders = all_folders(results)
    if not folders:
        raise UserError(f"there is no record under {results}: run the pipeline first, or name its results")
    check, files = RecordCheck(results, archived), CollectedFiles(results)
    sound, problems, edited = 0, list[str](), Counter[str]()
    for folder in through(files.in_order(folders)):
        checked = check.check(folder)
        sound += not checked.problems
        problems += checked.problems
        edited.update(checked.edited)
        if checked.record is not None:
            files.add(str((folder / RUN).relative_to(results)), checked.record)
    problems += problems_of_data(results)
    problems += problems_of_preparations(results)
    collected = list(files.problems())
    problems += collected
    problems += problems_of_reports(results)
    if not collected:
        problems += problems_of_conclusions(results)
    return Verified(len(folders), sound, problems, edited)
