"""A cell is one run of a suite: its identity, its preparation's, and the files that decide its result."""

import ast
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter

from thinwire import RULES_VERSION, plugins
from thinwire.base import digests, seeds
from thinwire.base.errors import UserError
from thinwire.config.hardware import ClusterDescription
from thinwire.config.yaml_file import Module, Size
from thinwire.optim.recipe import Recipe
from thinwire.plugins import PACKAGE, Plugin

Kind = Literal["inprocess", "measured", "emulated"]
NcclMode = Literal["bits", "timing"]
_KINDS: dict[str, Kind] = {"processes": "measured", "emulated": "emulated"}


@dataclass(frozen=True)
class PreparingCell:
    """In what the cell that a preparation is made for differs from a cell that uses it."""

    data: Module
    repetition: int


@dataclass(frozen=True)
class Cell:
    """One run of the grid."""

    suite: str
    data: Module
    model: Module
    method: Module
    workers: int
    nodes: int
    size_label: str
    repetition: int
    suite_seed: int
    recipe: Recipe
    evaluate_on: str
    device: str
    transport: str
    backend: str | None
    # The first method of the suite that shares the preparation of this one, and its recipe.
    preparer: str
    preparer_recipe: Recipe
    # Does it differ from its suite, by an option on the command line? Then its record has a place of its own.
    deviates: bool = False
    # What is emulated; None for the other transports.
    cluster: ClusterDescription | None = None
    # What NCCL's settings are for; runs of different modes are different cells, so no table has both.
    nccl: NcclMode = "bits"
    # Whose preparation the method uses; None: its own.
    prepare_from: PreparingCell | None = None

    @property
    def dataset(self) -> str:
        return self.data.label

    @property
    def labels(self) -> dict[str, str | int]:
        """What tables call it, by column."""
        return {
            "suite": self.suite,
            "dataset": self.dataset,
            "model": self.model.label,
            "method": self.method.label,
            "workers": self.workers,
            "nodes": self.nodes,
            "repetition": self.repetition,
        }

    @property
    def path(self) -> str:
        """The path of the run below its suite, which is also its name on the command line."""
        labels = self.dataset, self.model.label, self.method.label, self.size_label
        return "/".join((*labels, f"seed{self.repetition}"))

    @property
    def place(self) -> str:
        """What it has in common with its cells of other methods and repetitions."""
        return "/".join((self.dataset, self.model.label, self.size_label))

    @property
    def block(self) -> str:
        """The path of its block: the cells that differ only in their method, and are measured together."""
        return f"{self.place}/seed{self.repetition}"

    @property
    def has_ranks(self) -> bool:
        """Has each worker a process of its own? Only such runs are timed."""
        return self.transport != "inprocess"

    @property
    def kind(self) -> Kind:
        return _KINDS.get(self.transport, "inprocess")

    @property
    def seed(self) -> int:
        """The seed. It fixes initial weights and data order, alike for all methods and numbers of workers."""
        return seeds.of_run(self.suite_seed, self.dataset, self.model.label, self.repetition)

    def identity(self) -> dict[str, object]:
        """Everything that decides the result, except code and data, in types that JSON preserves."""
        identity = {
            **vars(self),
            **{name: _as_json(vars(getattr(self, name))) for name in ("data", "model", "method")},
            "recipe": self.recipe.model_dump(mode="json"),
            "preparer_recipe": self.preparer_recipe.model_dump(mode="json"),
            "rules": RULES_VERSION,
        }
        del identity["deviates"]  # only of the place of its record
        # Cells without a cluster, with their own preparation, or that want equal bits of NCCL, keep the
        # identity of earlier versions.
        del identity["cluster"], identity["prepare_from"]
        if self.cluster is not None:
            identity["cluster"] = self.cluster.model_dump(mode="json")
        if self.nccl == "bits":
            del identity["nccl"]
        if self.prepare_from is not None:
            identity["prepare_from"] = _as_json(asdict(self.prepare_from))
        return identity

    @property
    def fingerprint(self) -> str:
        return digests.of_identity(self.identity())

    @property
    def preparing(self) -> "Cell":
        """The cell that its preparation is made for: itself, unless `prepare_from` names another one."""
        if self.prepare_from is None:
            return self
        other = self.prepare_from
        return replace(self, data=other.data, repetition=other.repetition, prepare_from=None)

    @property
    def preparation(self) -> str:
        """The path of the method's preparation below its suite.

        Workers, nodes and transport are not part of it, so that runs on all numbers of workers share one.
        """
        of = self.preparing
        return "/".join((of.dataset, self.model.label, self.preparer, f"seed{of.repetition}"))

    def preparation_identity(self) -> dict[str, str]:
        """Everything that the preparation may depend on, except code and data, under readable names."""
        of = self.preparing
        return {
            "data set": digests.of_identity(asdict(of.data)),
            "model": digests.of_identity(asdict(self.model)),
            "method": digests.of_identity([self.method.use, self.method.options]),
            "seed": str(of.seed),
            "recipe": digests.of_identity(self.preparer_recipe.model_dump(mode="json")),
            "suite": self.suite,
            "device": self.device,
            "choice of what is evaluated on": self.evaluate_on,
            "version of the rules": str(RULES_VERSION),
        }

    @property
    def preparation_fingerprint(self) -> str:
        return digests.of_identity(self.preparation_identity())


def _as_json(value: object) -> object:
    """The value in types that JSON knows, so that it is the same when it is read back."""
    if isinstance(value, dict):
        return {str(key): _as_json(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_as_json(entry) for entry in value]
    finite = not isinstance(value, float) or math.isfinite(value)
    return value if isinstance(value, bool | int | float | str | None) and finite else str(value)


_CELL = TypeAdapter(Cell)  # takes milliseconds, and thousands of records ask


def cell_of(identity: dict[str, Any], deviates: bool = False) -> Cell:
    """The cell with an identity that `Cell.identity` gave, under these or earlier rules.

    Raises:
        UserError: no cell has this identity.
    """
    try:
        recipes = {name: Recipe.of_dump(identity[name]) for name in ("recipe", "preparer_recipe")}
        Size(workers=identity["workers"], nodes=identity["nodes"])
        made = _CELL.validate_python({**identity, **recipes, "deviates": deviates})
        same = {**made.identity(), "rules": identity.get("rules")} == identity
    except (KeyError, TypeError, AttributeError, ValueError):
        same = False
    if not same:
        raise UserError("its cell is none that a suite can have")
    return made


_LOOP = PACKAGE / "train" / "trainer.py"
ENGINE = "engine"


def engine_files(plugin: Plugin) -> list[Path]:
    """The engine's files that a plug-in imports, such as codecs, which belong to it, and those they import.

    The training loop is left out, with all that it imports: it is the same for all cells, and `RULES_VERSION`
    stands for it.
    """
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
