"""From a suite to its cells, and to the blocks in which they are trained.

A block has the cells that differ only in their method. They are measured together, one after the other, in
one job on a cluster.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from itertools import product

from thinwire import plugins
from thinwire.base import digests
from thinwire.base.errors import Problems, UserError, nearest
from thinwire.base.options import resolve
from thinwire.config.cell import Cell, PreparingCell, prepares
from thinwire.config.entries import added_later, entries_of, modules_of
from thinwire.config.entry_schema import Entry
from thinwire.config.grid_subset import WHOLE, Subset
from thinwire.config.hardware import load_cluster
from thinwire.config.suite import entry_file, load, path_of
from thinwire.config.suite_problems import problems_of
from thinwire.config.suite_schema import Suite
from thinwire.config.yaml_file import Module
from thinwire.optim.recipe import Recipe
from thinwire.plugins import show

_OF_A_KEY = re.compile(r"\S+: ")


def consistent(name: str) -> tuple[Suite, dict[str, list[Module]]]:
    """A suite by its name, all of whose names and labels are there, and its plug-ins by kind.

    They are found but not imported. A UserError says why the suite is not valid.
    """
    suite = load(name)
    modules = _modules(suite)
    _require_none(name, list(problems_of(suite, modules)))
    return suite, modules


def cells(name: str) -> list[Cell]:
    """All cells of a suite that is `consistent`, by its name."""
    suite, modules = consistent(name)
    entries = entries_of(suite)
    cluster = None if suite.cluster is None else load_cluster(suite.cluster)
    places = [
        (dataset, model, size, _methods_at(suite, dataset.label, model.label, size.label))
        for dataset, model, size in product(modules["dataset"], modules["model"], suite.workers)
    ]
    return [
        Cell(
            suite=name,
            data=dataset,
            model=model,
            method=method,
            workers=size.workers,
            nodes=size.nodes,
            size_label=size.label,
            repetition=repetition,
            suite_seed=suite.seed,
            recipe=recipe,
            preparer=preparer,
            preparer_recipe=preparer_recipe,
            evaluate_on=suite.evaluate_on,
            device=suite.device,
            transport=suite.transport,
            backend=suite.backend,
            nccl=suite.nccl,
            cluster=cluster,
            prepare_from=_preparing_cell(entries[method.label], dataset, repetition, modules["dataset"]),
        )
        for repetition in range(suite.repetitions)
        for dataset, model, size, methods_there in places
        for method, recipe, preparer, preparer_recipe in methods_there
    ]


def _methods_at(
    suite: Suite, dataset: str, model: str, size: str
) -> list[tuple[Module, Recipe, str, Recipe]]:
    """Each method as it is in one place: its recipe, the label of its preparer, and the preparer's recipe.

    All numbers of workers share a preparation, so it has the recipe that the first of them has.
    """
    here = suite.at(dataset, model, size)
    first = suite.at(dataset, model, suite.workers[0].label)
    methods = modules_of(entries_of(here))
    shared = {
        method.label: first if here is not suite and prepares(method.use) else here for method in methods
    }
    recipes = {label: found.recipe_of(label) for label, found in shared.items()}
    preparers = [_preparer_of(method, methods, recipes).label for method in methods]
    return [
        (method, here.recipe_of(method.label, dataset), of, shared[of].recipe_of(of, dataset))
        for method, of in zip(methods, preparers)
    ]


def cells_as_it_ran(name: str, ran: Collection[str]) -> list[Cell]:
    """The cells of a suite without those of methods that were added after its runs: `ran` has the others."""
    later = added_later(load(name), ran)
    return [cell for cell in cells(name) if cell.method.label not in later]


def cell(name: str, path: str) -> Cell:
    """One cell of a suite, by its path, or a UserError that names the nearest."""
    every = {cell.path: cell for cell in cells(name)}
    if path not in every:
        raise UserError(
            f"suite {name} has no cell {path!r}: it has {len(every)} cells, and the nearest is "
            f"{nearest(path, every)}"
        )
    return every[path]


def preparation(name: str, path: str) -> Cell:
    """The cell that the preparation at this path is made for, or a UserError that names those there are."""
    every = {cell.preparation: cell.preparing for cell in cells(name) if prepares(cell.method.use)}
    if path not in every:
        there = f"it has {', '.join(every)}" if every else "none of its methods prepares anything"
        raise UserError(f"suite {name} has no preparation {path!r}: {there}")
    return every[path]


def require_as_planned(cell: Cell, planned: str | None, now: str) -> None:
    """Require that nothing that decides a result was changed after its job was planned, or a UserError."""
    if planned not in (None, now):
        raise UserError(
            f"{show(path_of(cell.suite))} or thinwire itself was changed since {cell.path} was planned, so "
            "it does not start: start the pipeline again; what has not changed is not repeated"
        )


def require_valid(name: str) -> None:
    """Import the plug-ins of a suite, and check its options against theirs.

    A broken plug-in is left out here. Its cells fail one by one, and the others run.

    Raises:
        UserError: unknown options, wrong types or values out of range; one message lists all of them.
    """
    suite = load(name)
    every = _modules(suite)
    found = list(problems_of(suite, every))
    for kind, modules in every.items():
        there = plugins.find(kind)
        for module in modules:
            try:
                if module.use in there:
                    resolve(there[module.use].load(), module.options)
            except plugins.PluginError:
                continue
            except Problems as error:
                entry = entry_file(suite, module.label) if kind == "method" else None
                where = "options" if entry else f"{kind}s.{module.label}.options"
                # A rule that joins several options has no key of its own.
                lines = [f"{where}{'.' if _OF_A_KEY.match(line) else ': '}{line}" for line in error.found]
                if entry:
                    raise Problems(show(entry), lines) from None
                found += lines
    _require_none(name, found)


def _modules(suite: Suite) -> dict[str, list[Module]]:
    kinds = {"dataset": suite.datasets, "model": suite.models, "method": entries_of(suite)}
    return {kind: modules_of(entries) for kind, entries in kinds.items()}


def _preparing_cell(
    method: Entry, dataset: Module, repetition: int, datasets: list[Module]
) -> PreparingCell | None:
    """The cell that the preparation of a cell is made for, or None if that is the cell itself."""
    named = method.prepare_from
    if named is None:
        return None
    data = dataset if named.dataset is None else next(m for m in datasets if m.label == named.dataset)
    return PreparingCell(data, repetition if named.seed is None else named.seed)


def _preparer_of(method: Module, methods: list[Module], recipes: dict[str, Recipe]) -> Module:
    """The first method of the suite that shares the preparation of this one."""
    own = recipes[method.label]
    for other in methods:
        shared = recipes[other.label]
        alike = (other.use, other.options) == (method.use, method.options)
        if not alike or shared.model_copy(update={"epochs": own.epochs}) != own:
            continue
        if shared.epochs == own.epochs or plugins.get("method", method.use).literal(
            "prepares_for_any_epochs"
        ):
            return other
    return method


def _require_none(name: str, found: list[str]) -> None:
    if found:
        raise Problems(show(path_of(name)), found)


def blocks(every: Iterable[Cell]) -> dict[str, list[Cell]]:
    """The blocks of these cells, by suite and path. The methods of each rotate with the repetition."""
    found: dict[str, list[Cell]] = {}
    for cell in every:
        found.setdefault(f"{cell.suite}/{cell.block}", []).append(cell)
    return {path: _rotated(members) for path, members in found.items()}


def block(name: str, path: str, subset: Subset = WHOLE) -> list[Cell]:
    """The cells of one block of a suite that are in the subset, by its path, or a UserError."""
    every = blocks(subset.keep(cells(name)))
    if f"{name}/{path}" not in every:
        paths = [key.removeprefix(f"{name}/") for key in every]
        raise UserError(f"suite {name} has no block {path!r}: the nearest is {nearest(path, paths)}")
    return every[f"{name}/{path}"]


def block_fingerprint(block: Sequence[Cell]) -> str:
    return digests.of_identity([cell.fingerprint for cell in block])


def _rotated(members: list[Cell]) -> list[Cell]:
    """No method is always the first or the last: what a machine does over time hits each of them."""
    shift = members[0].repetition % len(members)
    return members[shift:] + members[:shift]
