"""The cores that a job takes on one machine, so that the jobs together use all of them."""

from collections.abc import Sequence

from thinwire.config.cell import Cell


def of_block(block: Sequence[Cell], blocks: int, cores: int | None) -> int:
    """A core for each worker of a timed run; otherwise a core for each run at the same time.

    Args:
        block: what the job trains.
        blocks: of the whole grid.
        cores: of this machine; None on a cluster.
    """
    first = block[0]
    if first.transport == "processes":
        return first.workers
    if first.device == "cuda" or cores is None:
        return 1
    return max(1, min(len(block), cores // blocks))
