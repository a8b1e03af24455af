"""What `thinwire run` does about a record that its cell has already."""

from pathlib import Path

from thinwire.config.cell import Cell
from thinwire.errors import UserError
from thinwire.train import reuse_record
from thinwire.train.cell_state import MISSING, cell_state
from thinwire.train.make_again import block_command, is_timed, run_command
from thinwire.train.result_folders import record_folder
from thinwire.train.set_aside_record import set_aside


def settled(cell: Cell, results: Path, again: bool, leads: bool = True) -> int | None:
    """Say that a cell has its record; set aside a record that does not hold any more.

    A record that was made before, and is in the store, is published again.

    Args:
        cell: to be trained; the caller holds its lock.
        results: the folder of results.
        again: train it again even if it has its record.
        leads: does this process speak and act for all ranks?

    Returns:
        The exit code if nothing is left to do; None if the cell must be trained.

    Raises:
        UserError: it cannot be trained again alone, because it was timed in its block.
    """
    state, folder = cell_state(cell, results), record_folder(results, cell)
    if not state.holds:
        if state.word != MISSING and leads:
            moved = set_aside(cell, results)
            print(f"{folder} is {state}; it is now in {moved}, and the record is made again", flush=True)
        key = None if again else reuse_record.key_alone(cell, results)
        if key is None or not reuse_record.found(cell, key, results):
            return None
        print(f"{cell.path}: made before, and found in the store; its record is in {folder}")
        return 0
    if is_timed(cell):
        how = f"{block_command(cell, results, '--again')} trains all methods of its block again"
        if again:
            raise UserError(f"{cell.path} was timed side by side with other methods: {how}")
    elif again:
        return None
    else:
        how = f"{run_command(cell, results, '--again')} trains it again"
    if leads:
        print(f"{cell.path}: finished before ({state}); its record is in {folder}; {how}")
    return int(state.word == "failed")
