"""Reads the records that become rows of the collected files, and refuses those that do not verify."""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

from thinwire.base.digests import Damaged
from thinwire.base.errors import UserError
from thinwire.config.cell import Cell
from thinwire.config.expand import cells
from thinwire.config.sources import sources_of_many
from thinwire.config.suite import suite_names
from thinwire.config.trials import PREFIX
from thinwire.records.invariants import require_invariants
from thinwire.records.record import RUN, read_sound
from thinwire.train.record_check import SoundRecord as SoundRecord
from thinwire.train.result_files import advice, advice_by_hand, folders_of_records, record_folder, runs_folder
from thinwire.train.reuse import Sources, difference, difference_of_options


class Reader:
    """Reads the records of many cells, one after the other."""

    def __init__(self, results: Path, wanted: Collection[Cell], archived: bool = False) -> None:
        """Prepare to read.

        Args:
            results: the folder of results.
            wanted: the cells that must have a sound record. Of all others, what is there is read.
            archived: are these records kept? Then files of their plug-ins may have been edited since: an edit
                that changes results raises the version of the rules.
        """
        self._results = results
        self._archived = archived
        self._wanted = {record_folder(results, cell) for cell in wanted}
        # By what the records are of: why they are left out.
        self._refused: dict[str, list[str]] = {}
        self.cells = [*wanted, *self._others()]

    def read(self, chosen: Sequence[Cell]) -> Iterator[SoundRecord]:
        """The sound and current records of these cells.

        Raises:
            UserError: one that is wanted is missing, damaged, changed, out of date or breaks an invariant;
                the message says what to do.
        """
        sources_of = sources_of_many()
        for cell in chosen:
            try:
                yield _sound(self._results, cell, None if self._archived else sources_of)
            except UserError as error:
                if record_folder(self._results, cell) in self._wanted:
                    raise
                self._refused[f"of suite {cell.suite}"].append(str(error))

    def left_out(self) -> list[str]:
        """A sentence for each suite with records that were refused: how many, and why the first was."""
        sentences = []
        for which, reasons in self._refused.items():
            if reasons:
                number = "1 record" if len(reasons) == 1 else f"{len(reasons)} records"
                sentences.append(f"left out of summary.csv: {number} {which}; the first: {reasons[0]}")
        return sentences

    def _others(self) -> Iterator[Cell]:
        """The cells that are not wanted and have a record, so that `summary.csv` keeps it."""
        runs = runs_folder(self._results)
        left = set(folders_of_records(self._results)) - self._wanted
        # Records of trials belong to their tuning.
        left = {folder for folder in left if not folder.is_relative_to(runs / PREFIX)}
        for suite in suite_names():
            own = {folder for folder in left if folder.is_relative_to(runs / suite)}
            if not own:
                continue
            reasons = self._refused[f"of suite {suite}"] = []
            try:
                grid = {record_folder(self._results, cell): cell for cell in cells(suite)}
            except UserError as error:
                left -= own
                reasons += [str(error)] * len(own)
                continue
            left -= own & grid.keys()
            yield from (cell for folder, cell in grid.items() if folder in own)
        if left:
            reasons = [f"{folder}: delete it, or restore its suite" for folder in sorted(left)]
            self._refused["without a cell in any suite of config/"] = reasons


def _sound(results: Path, cell: Cell, sources_of: Sources | None) -> SoundRecord:
    """Read the record of a cell of a suite as it is now; errors are those of `Reader.read`.

    Without `sources_of`, the files of its plug-ins may have been edited.
    """
    folder = record_folder(results, cell)
    again = advice
    try:
        run = read_sound(folder / RUN)
        reason = difference(run, cell, sources_of) if sources_of else difference_of_options(run, cell)
        if reason:
            raise Damaged(f"{folder / RUN} was made with {reason}")
        again = advice_by_hand
        return SoundRecord(cell, run, *require_invariants(folder, run, cell))
    except Damaged as error:
        raise UserError(f"{error}: {again(cell, results)}") from None
