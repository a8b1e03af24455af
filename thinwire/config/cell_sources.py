"""The files of plug-ins that a cell depends on: if one of them changes, its runs are made again."""

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
    used = {"method": cell.method.use, "model": cell.model.use, "dataset": cell.data.use}
    return {kind: plugins.get(kind, name).sha256 for kind, name in used.items()}
