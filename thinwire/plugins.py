"""Plug-ins: methods, models and data sets. They are found, not registered.

Every module in the folder of its kind is a plug-in, in the project and in a folder of one's own. A file
`methods/NAME.py` (or a package `methods/NAME/`) defines one class `Method`; likewise `Model` in `models/` and
`Dataset` in `datasets/`. Names that begin with an underscore or a dot are ignored. All others must be labels,
because they occur in paths and commands.
"""

import ast
import dataclasses
import importlib.util
import inspect
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, NamedTuple

from pydantic import StrictBool, TypeAdapter

from thinwire.api.declarations import AboutMethod, Part, about
from thinwire.base import digests, folders, options, torch_settings
from thinwire.base.errors import UserError, line_of, message_of
from thinwire.base.folders import PACKAGE as PACKAGE
from thinwire.base.folders import ROOT as ROOT
from thinwire.base.folders import require_label

# SHA-256 of the plug-ins that this process has loaded, by module name.
_LOADED: dict[str, str] = {}
CLASS = {"method": "Method", "model": "Model", "dataset": "Dataset"}


class _Literal(NamedTuple):
    """A class attribute that is read from the source, so that no module must be imported for it."""

    kinds: tuple[str, ...]  # of plug-ins that have it
    type: Any
    example: str


_LITERALS = {
    "task": _Literal(("dataset", "model"), Literal["classification", "next_character"], '"next_character"'),
    "clients": _Literal(("dataset",), str, '"plays"'),
    "reads_datasets": _Literal(("dataset",), tuple[str, ...], '("shakespeare",)'),
    "ablations": _Literal(("method",), list[dict[str, object]], '[{"momentum": "drop"}]'),
    "prepares_from_models": _Literal(("method",), tuple[str, ...], '("cnn", "lenet")'),
    "prepares_for_any_epochs": _Literal(("method",), StrictBool, "True"),
    "tuned_as_ssgd": _Literal(("method",), StrictBool, "True"),
    "tunes": _Literal(("method",), dict[str, object], '{"clip": (0.1, 10.0)}'),
}


class PluginError(UserError):
    """A plug-in's module cannot be used."""


@dataclass(frozen=True)
class Plugin:
    """One plug-in: a module or a package."""

    kind: str
    name: str
    path: Path

    @property
    def files(self) -> list[Path]:
        """Its file, or all files of its package; and those of the data sets that it reads."""
        return [*self._own_files, *(path for other in self._reads for path in other.files)]

    @property
    def sha256(self) -> str:
        """A digest of its file, or of the names and the content of all its files."""
        if self.files == [self.path] and self.path.name != "__init__.py":
            return digests.of_file(self.path)
        own = [f"{path.relative_to(self.path.parent)} {digests.of_file(path)}\n" for path in self._own_files]
        return digests.of_text("".join([*own, *(f"{other.name} {other.sha256}\n" for other in self._reads)]))

    @property
    def _own_files(self) -> list[Path]:
        return sorted(self.path.parent.rglob("*.py")) if self.path.name == "__init__.py" else [self.path]

    @property
    def _reads(self) -> list["Plugin"]:
        """The other data sets that a data set reads."""
        names = self.literal("reads_datasets") if self.kind == "dataset" else None
        return [get(self.kind, name) for name in names or () if name != self.name]

    @property
    def title(self) -> str:
        """The first line of its docstring; this does not run its code."""
        if self._tree() is None:
            return "(cannot be read)"
        return (self.docstring or "(no docstring)").splitlines()[0]

    @property
    def docstring(self) -> str:
        """Its docstring, empty if there is none or the file cannot be read; this does not run its code."""
        return ast.get_docstring(self._tree() or ast.Module([], [])) or ""

    def defines(self, hook: str) -> bool:
        """Does its class define this hook? This does not run its code."""
        return any(isinstance(node, ast.FunctionDef) and node.name == hook for node in self._body())

    def literal(self, name: str) -> Any:
        """Return the constant that its class assigns to `name`, or None; this does not run its code.

        Raises:
            PluginError: the class assigns something else.
        """
        values = [
            node.value
            for node in self._body()
            if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
            if name in map(ast.unparse, node.targets if isinstance(node, ast.Assign) else [node.target])
        ]
        if not values:
            return None
        _, type_, example = _LITERALS[name]
        try:
            literal = ast.literal_eval(values[-1])
            TypeAdapter(type_).validate_python(literal)
        except (ValueError, TypeError):
            raise PluginError(
                f"{show(self.path)}, line {values[-1].lineno}: {name} must be a literal such as {example}, "
                "because it is read without running the code"
            ) from None
        return literal

    def _body(self) -> list[ast.stmt]:
        """Return the statements in the body of its class."""
        tree = self._tree() or ast.Module([], [])
        classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
        return [node for c in classes if c.name == CLASS[self.kind] for node in c.body]

    def _tree(self) -> ast.Module | None:
        try:
            return _parsed(self.path.read_bytes())
        except (SyntaxError, ValueError, OSError):
            return None

    def load(self) -> Any:
        """Import the module and return its class.

        Raises:
            PluginError: the module cannot be used; one sentence with the file, the line and the reason.
            UserError: the files were changed after this process loaded them.
        """
        name = f"thinwire_{self.kind}s.{self.name}"
        digest = self.sha256
        if name in sys.modules:
            if _LOADED.get(name) != digest:
                raise UserError(f"{show(self.path)} was changed after it was loaded: start again")
            return getattr(sys.modules[name], CLASS[self.kind])
        loaded = load_file(self.kind, self.path, name)
        _LOADED[name] = digest
        return loaded


@lru_cache(maxsize=256)  # a plan of thousands of cells asks as often what a plug-in declares
def _parsed(source: bytes) -> ast.Module:
    return ast.parse(source)


def name_of(path: Path) -> str:
    """Return the name of the plug-in in this file: the file's own name, or that of its package."""
    return path.parent.name if path.name == "__init__.py" else path.stem


def find(kind: str, root: Path = ROOT) -> dict[str, Plugin]:
    """Return all plug-ins of one kind, by name: those of the project, and one's own.

    Raises:
        UserError: two modules have the same name, or a name is no valid label.
    """
    found: dict[str, Plugin] = {}
    places = [folder / f"{kind}s" for folder in folders.every(root)]
    for path in [p for f in places for p in sorted([*f.glob("*.py"), *f.glob("*/__init__.py")])]:
        name = name_of(path)
        if name.startswith(("_", ".")):
            continue
        if not path.is_file():
            raise UserError(f"{show(path)} is no file: rename or remove it")
        try:
            require_label(name)
        except UserError as error:
            raise UserError(f"{show(path)!r}: {error}; rename the file") from None
        if name in found:
            raise UserError(
                f"two {kind} modules have the name {name}, {show(found[name].path)} and {show(path)}: "
                "rename one of them"
            )
        found[name] = Plugin(kind, name, path)
    return found


def get(kind: str, name: str) -> Plugin:
    """Return the plug-in with this name.

    Raises:
        UserError: there is none; the message lists those that exist.
    """
    found = find(kind)
    if name not in found:
        raise UserError(f"there is no {kind} {name!r}: there are {', '.join(found)}")
    return found[name]


def about_method(name: str) -> AboutMethod:
    """Read the module of a method; errors are those of `get` and of `Plugin.load`."""
    plugin = get("method", name)
    return about(plugin.load(), plugin.name, show(plugin.path), plugin.defines("prepare"))


def load_file(kind: str, path: Path, module_name: str) -> Any:
    """Import a file as a module and return its class `Method`, `Model` or `Dataset`.

    Raises:
        PluginError: the module cannot be imported, or does not define the class as it should.
    """
    folder = [str(path.parent)] if path.name == "__init__.py" else None
    spec = importlib.util.spec_from_file_location(module_name, path, submodule_search_locations=folder)
    if spec is None or spec.loader is None:
        raise PluginError(f"{show(path)}: a {kind} is a Python file")
    module = importlib.util.module_from_spec(spec)
    # Registered during the import, because dataclasses look up their module by name.
    sys.modules[module_name] = module
    if parent := module_name.rpartition(".")[0]:
        # `from . import x` in a package looks up the packages around it.
        sys.modules.setdefault(parent, ModuleType(parent))
    settings = torch_settings.read()
    try:
        try:
            spec.loader.exec_module(module)
        finally:
            changed = torch_settings.restore(settings)
        if changed:
            raise PluginError(f"{show(path)}: remove what changes {changed} for the whole process")
        return _plugin_class(kind, path, module)
    except BaseException as error:
        del sys.modules[module_name]
        if isinstance(error, PluginError | KeyboardInterrupt):
            raise
        line = line_of(error, path)
        place = show(path) if line is None else f"{show(path)}, line {line}"
        raise PluginError(f"{place}: {_what(error)}") from error


def show(path: Path) -> str:
    """Return a path as the user knows it: relative to the project if it is inside."""
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def _plugin_class(kind: str, path: Path, module: ModuleType) -> type:
    import thinwire

    name = CLASS[kind]
    found, base = getattr(module, name, None), getattr(thinwire, name)
    if not (inspect.isclass(found) and issubclass(found, base) and found is not base):
        raise PluginError(f"{show(path)}: it must define a class {name}(thinwire.{name})")
    if not dataclasses.is_dataclass(config := getattr(found, "Config", None)):
        raise PluginError(f"{show(path)}: its Config must be a @dataclass")
    options.checked(config)
    _require_readable(Plugin(kind, name_of(path), path), found, base)
    parts = getattr(found, "provenance", ())
    if not (isinstance(parts, tuple) and all(isinstance(part, Part) for part in parts)):
        raise PluginError(f"{show(path)}: its provenance must be a tuple of thinwire.Part(...)")
    return found


def _require_readable(plugin: Plugin, found: type, base: type) -> None:
    """Check that a plug-in is what its source says, for the engine reads some of it without running the code.

    Raises:
        PluginError: an attribute or `prepare` is not written into the body of the class.
    """
    for name, (kinds, _, example) in _LITERALS.items():
        if plugin.kind not in kinds:
            continue
        read = plugin.literal(name)
        if getattr(found, name) != (getattr(base, name) if read is None else read):
            raise PluginError(
                f"{show(plugin.path)}: {name} must be assigned in the body of the class {CLASS[plugin.kind]} "
                f"itself, as a literal such as {example}, because it is read without running the code"
            )
    if plugin.kind != "method":
        return
    prepares = inspect.getattr_static(found, "prepare") is not inspect.getattr_static(base, "prepare")
    if plugin.defines("prepare") != prepares:
        raise PluginError(
            f"{show(plugin.path)}: prepare must be a def in the body of the class Method itself"
        )


def _what(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return "it ends the process that imports it: do that only `if __name__ == '__main__'`"
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg}"
    return " ".join(message_of(error).split())
