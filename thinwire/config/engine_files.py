"""The files of the engine that belong to a plug-in, because it imports them: codecs, for instance.

The training loop is left out, with all that it imports. It is the same for all cells, and `RULES_VERSION`
stands for it.
"""

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

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
    else:
        for child in ast.iter_child_nodes(node):
            yield from _names(child)
