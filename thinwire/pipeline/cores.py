"""The cores that a job takes on one machine, so that the jobs together use all of them."""

from collections.abc import Sequence

from thinwire.config.cell import Cell


def of_block(block: Sequence[Cell], blocks: int, cores: int | None) -> int:
    """A core for each worker of a timed run; otherwise one for each run at the same time.

    Args:
        block: what the job trains.
        blocks: of the whole grid.
        cores: of this machine; None on a cluster.
    """
    timed = block[0].has_ranks
    return block[0].workers if timed else runs_at_once(block, blocks, cores)


def runs_at_once(block: Sequence[Cell], blocks: int, cores: int | None) -> int:
    """The runs of a block at the same time; timed runs have their machines for themselves."""
    if block[0].has_ranks or block[0].device == "cuda" or cores is None:
        return 1
    return max(1, min(len(block), cores // blocks))
