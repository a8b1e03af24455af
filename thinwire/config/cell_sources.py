"""The files that a cell depends on: if one of them changes, its runs are made again."""

from collections.abc import Callable
from functools import cache, partial
from typing import NamedTuple

from thinwire import digests, plugins
from thinwire.config.cell import Cell
from thinwire.config.engine_files import engine_files
from thinwire.plugins import Plugin

ENGINE = "engine"


class PluginDigests(NamedTuple):
    """What changes with the files that a plug-in consists of."""

    own: str
    engine: str
    """Of the engine's files that it imports."""


def prepares(cell: Cell) -> bool:
    """Does the method of this cell prepare something before its runs?"""
    return plugins.get("method", cell.method.use).defines("prepare")


def prepared_from(cell: Cell) -> list[Plugin]:
    """The models that the method's preparation uses in addition to the cell's own."""
    names = plugins.get("method", cell.method.use).literal("prepares_from_models") or ()
    return [plugins.get("model", name) for name in names]


def sources(cell: Cell) -> dict[str, str]:
    """Digests of the method, the model, the data set and the engine's files that they import, as of now."""
    return sources_by(cell, plugin_digests)


def sources_of_many() -> Callable[[Cell], dict[str, str]]:
    """A function like `sources` that reads each plug-in once, for many cells of one moment."""
    return partial(sources_by, digests_of=cache(plugin_digests))


def sources_by(cell: Cell, digests_of: Callable[[str, str], PluginDigests]) -> dict[str, str]:
    """What `sources` gives, from a function of the kind and the name of a plug-in."""
    used = {"method": cell.method.use, "model": cell.model.use, "dataset": cell.data.use}
    found = {kind: digests_of(kind, name) for kind, name in used.items()}
    return {kind: each.own for kind, each in found.items()} | {
        ENGINE: digests.of_identity([each.engine for each in found.values()])
    }


def plugin_digests(kind: str, name: str) -> PluginDigests:
    """Read the files of a plug-in, and those of the engine that it imports."""
    plugin = plugins.get(kind, name)
    paths = {str(path.relative_to(plugins.PACKAGE.parent)): path for path in engine_files(plugin)}
    imported = {name: digests.of_file(path) for name, path in paths.items()}
    return PluginDigests(plugin.sha256, digests.of_identity(imported))
