"""The files that a cell's result depends on, and their digests.

The engine's files that a plug-in imports, such as codecs, belong to it. The training loop is left out, with
all that it imports: it is the same for all cells, and `RULES_VERSION` stands for it.
"""

import ast
from collections.abc import Callable, Iterable, Iterator
from functools import cache, partial
from pathlib import Path

from thinwire import plugins
from thinwire.base import digests
from thinwire.config.cell import Cell
from thinwire.plugins import PACKAGE, Plugin

_LOOP = PACKAGE / "train" / "trainer.py"


def engine_files(plugin: Plugin) -> list[Path]:
    """The files that the plug-in imports, and those that they import, without the training loop's."""
    return sorted(_imported_by(plugin.files, _of_loop()))


@cache
def _of_loop() -> frozenset[Path]:
    return frozenset(_imported_by([_LOOP], frozenset()) | {_LOOP})


def _imported_by(files: Iterable[Path], without: frozenset[Path]) -> set[Path]:
    found: set[Path] = set()
    waiting = list(files)
    while waiting:
        new = _imports(waiting.pop()) - found - without
        found |= new
        waiting += new
    return found


@cache  # if the imports of a file change, so does its own digest
def _imports(path: Path) -> frozenset[Path]:
    """The engine's files that a file imports itself; none if it cannot be read."""
    try:
        names = list(_names(ast.parse(path.read_bytes())))
    except (SyntaxError, ValueError, OSError):
        return frozenset()
    places = [PACKAGE.parent / name.replace(".", "/") for name in names if name.startswith("thinwire.")]
    files = [file for place in places for file in (place.with_suffix(".py"), place / "__init__.py")]
    return frozenset(file for file in files if file.is_file())


def _names(node: ast.AST) -> Iterator[str]:
    """The modules that are imported below a node; also names in modules, which are no files."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
    elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
        return
    elif not isinstance(node, ast.expr):  # no expression imports anything, and most nodes belong to one
        for child in ast.iter_child_nodes(node):
            yield from _names(child)


ENGINE = "engine"


@cache  # thousands of cells ask
def prepares(module: str) -> bool:
    """Does the method in this module prepare something before its runs?"""
    return plugins.get("method", module).defines("prepare")


def prepared_from(cell: Cell) -> list[Plugin]:
    """The models that the method's preparation uses in addition to the cell's own."""
    names = plugins.get("method", cell.method.use).literal("prepares_from_models") or ()
    return [plugins.get("model", name) for name in names]


def plugin_digests(kind: str, name: str) -> tuple[str, str]:
    """The digests of a plug-in's files, and of the engine's files that it imports."""
    plugin = plugins.get(kind, name)
    paths = {str(path.relative_to(plugins.PACKAGE.parent)): path for path in engine_files(plugin)}
    imported = {name: digests.of_file(path) for name, path in paths.items()}
    return plugin.sha256, digests.of_identity(imported)


def sources(cell: Cell, digests_of: Callable[[str, str], tuple[str, str]] = plugin_digests) -> dict[str, str]:
    """Digests of the method, the model, the data set and the engine's files that they import, as of now."""
    used = {"method": cell.method.use, "model": cell.model.use, "dataset": cell.data.use}
    found = {kind: digests_of(kind, name) for kind, name in used.items()}
    engine = digests.of_identity([imported for _, imported in found.values()])
    return {kind: own for kind, (own, _) in found.items()} | {ENGINE: engine}


def sources_of_many() -> Callable[[Cell], dict[str, str]]:
    """A function like `sources` that reads each plug-in once, for many cells of one moment."""
    return partial(sources, digests_of=cache(plugin_digests))
