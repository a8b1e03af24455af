"""The cores that a job takes on one machine, so that the jobs together use all of them."""

import math
from collections.abc import Sequence

from thinwire.config.cell import Cell


def of_block(block: Sequence[Cell], blocks: int, cores: int | None) -> int:
    """All cores for a timed block, because whatever runs beside it would lengthen its times.

    Other blocks take a core for each run at the same time. On a cluster Slurm counts the cores, and a block
    has one for each worker, or a single one.

    Args:
        block: what the job trains.
        blocks: of the whole grid.
        cores: of this machine; None on a cluster.
    """
    if block[0].has_ranks:
        return cores or block[0].workers
    return runs_at_once(block, blocks, cores)


def of_preparation(cell: Cell, cores: int | None) -> int:
    """All cores for a preparation of timed runs, whose seconds stand beside theirs; otherwise one."""
    return (cores or 1) if cell.has_ranks else 1


def runs_at_once(block: Sequence[Cell], blocks: int, cores: int | None) -> int:
    """The runs of a block at the same time, such that all blocks end earliest.

    Blocks of equal runs are assumed. Of several numbers that end as early, it is the smallest. Timed runs
    have their machines for themselves.
    """
    if block[0].has_ranks or block[0].device == "cuda" or cores is None:
        return 1

    def rounds(runs: int) -> int:
        return math.ceil(blocks / (cores // runs)) * math.ceil(len(block) / runs)

    return min(range(1, min(len(block), cores) + 1), key=rounds)
