"""The files of plug-ins that a cell depends on: if one of them changes, its runs are made again."""

from collections.abc import Callable
from functools import cache, partial

from thinwire import plugins
from thinwire.config.cell import Cell
from thinwire.plugins import Plugin


def prepares(cell: Cell) -> bool:
    """Does the method of this cell prepare something before its runs?"""
    return plugins.get("method", cell.method.use).defines("prepare")


def prepared_from(cell: Cell) -> list[Plugin]:
    """The models that the method's preparation uses in addition to the cell's own."""
    names = plugins.get("method", cell.method.use).literal("prepares_from_models") or ()
    return [plugins.get("model", name) for name in names]


def sources(cell: Cell) -> dict[str, str]:
    """The SHA-256 of the method, the model and the data set, as their files are now."""
    return sources_by(cell, _digest)


def sources_of_many() -> Callable[[Cell], dict[str, str]]:
    """A function like `sources` that reads each plug-in once, for many cells of one moment."""
    return partial(sources_by, digest_of=cache(_digest))


def sources_by(cell: Cell, digest_of: Callable[[str, str], str]) -> dict[str, str]:
    """What `sources` gives, from a function of the kind and the name of a plug-in."""
    used = {"method": cell.method.use, "model": cell.model.use, "dataset": cell.data.use}
    return {kind: digest_of(kind, name) for kind, name in used.items()}


def _digest(kind: str, name: str) -> str:
    return plugins.get(kind, name).sha256
