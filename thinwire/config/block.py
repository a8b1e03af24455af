"""A block: the cells that differ only in their method. They are measured together, one after the other.

`Cell.block` says to which block a cell belongs. A block is one job on a cluster.
"""

from collections.abc import Iterable, Sequence

from thinwire import digests
from thinwire.config.cell import Cell
from thinwire.config.expand_suite import cells
from thinwire.config.grid_subset import WHOLE, Subset
from thinwire.errors import UserError
from thinwire.label import nearest


def blocks(every: Iterable[Cell]) -> dict[str, list[Cell]]:
    """The blocks of these cells, by suite and path. The methods of each rotate with the repetition."""
    found: dict[str, list[Cell]] = {}
    for cell in every:
        found.setdefault(f"{cell.suite}/{cell.block}", []).append(cell)
    return {path: _rotated(members) for path, members in found.items()}


def block(name: str, path: str, subset: Subset = WHOLE) -> list[Cell]:
    """The cells of one block of a suite, by its path.

    Args:
        name: of the suite.
        path: of the block.
        subset: the cells that are wanted.

    Raises:
        UserError: the suite has no such block.
    """
    every = blocks(subset.keep(cells(name)))
    if f"{name}/{path}" not in every:
        paths = [key.removeprefix(f"{name}/") for key in every]
        raise UserError(f"suite {name} has no block {path!r}: the nearest is {nearest(path, paths)}")
    return every[f"{name}/{path}"]


def block_fingerprint(block: Sequence[Cell]) -> str:
    """The digest of the fingerprints of its cells, in their order."""
    return digests.of_identity([cell.fingerprint for cell in block])


def _rotated(members: list[Cell]) -> list[Cell]:
    """No method is always the first or the last: what a machine does over time hits each of them."""
    shift = members[0].repetition % len(members)
    return members[shift:] + members[:shift]
