"""Publishes no result of a plug-in that was edited while it trained."""

from collections.abc import Mapping

from thinwire.config.cell import Cell
from thinwire.config.cell_sources import sources
from thinwire.errors import UserError


def require_unchanged_sources(cell: Cell, before: Mapping[str, str]) -> None:
    """Check that the plug-ins of a cell are as they were when the attempt began.

    Args:
        cell: that was trained.
        before: the digests of its plug-ins at the beginning, by kind.

    Raises:
        UserError: a file has changed; the message names the kinds of plug-ins.
    """
    changed = [kind for kind, digest in sources(cell).items() if digest != before[kind]]
    if changed:
        raise UserError(
            f"the file of the {' and of the '.join(changed)} was changed while {cell.path} was "
            "trained, so its result is not published: start it again"
        )
