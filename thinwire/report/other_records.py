"""The records that were not asked for, so that `summary.csv` keeps every run that has a result."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from thinwire.config.cell import Cell
from thinwire.config.expand_suite import cells
from thinwire.config.suite import suite_names
from thinwire.config.tuning_suite import PREFIX
from thinwire.errors import UserError
from thinwire.report.require_sound_record import SoundRecord, require_sound_record
from thinwire.train.result_folders import folders_of_records, record_folder, runs_folder


def other_records(results: Path, chosen: Iterable[Cell]) -> tuple[list[SoundRecord], list[str]]:
    """Read the records of all cells that were not chosen.

    Returns:
        The records that are sound and current; and a sentence for each suite with
        records that are not: how many, and what is wrong with the first.
    """
    runs, sentences = runs_folder(results), []
    left = set(folders_of_records(results)) - {record_folder(results, cell) for cell in chosen}
    # Records of trials belong to their tuning.
    left = {folder for folder in left if not folder.is_relative_to(runs / PREFIX)}
    kept: list[SoundRecord] = []
    for suite in suite_names():
        own = {folder for folder in left if folder.is_relative_to(runs / suite)}
        if not own:
            continue
        try:
            grid = [(cell, record_folder(results, cell)) for cell in cells(suite)]
        except UserError as error:
            left -= own
            sentences.append(_left_out([str(error)] * len(own), f"of suite {suite}"))
            continue
        refused = []
        for cell, folder in grid:
            if folder in own:
                left.remove(folder)
                try:
                    kept.append(require_sound_record(results, cell))
                except UserError as error:
                    refused.append(str(error))
        if refused:
            sentences.append(_left_out(refused, f"of suite {suite}"))
    if left:
        reasons = [f"{folder}: delete it, or restore its suite" for folder in sorted(left)]
        sentences.append(_left_out(reasons, "without a cell in any suite of config/"))
    return kept, sentences


def _left_out(reasons: Sequence[str], which: str) -> str:
    """How many of these records are left out, and the first reason."""
    number = "1 record" if len(reasons) == 1 else f"{len(reasons)} records"
    return f"left out of summary.csv: {number} {which}; the first: {reasons[0]}"
