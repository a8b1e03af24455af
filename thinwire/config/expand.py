"""From a suite to its cells, and to the blocks in which they are trained.

A block has the cells that differ only in their method. They are measured together, one after the other, in
one job on a cluster.
"""

from collections.abc import Collection, Iterable, Sequence
from functools import cache
from math import prod

from thinwire import plugins
from thinwire.base import digests
from thinwire.base.errors import Problems, UserError
from thinwire.base.names import clash, nearest
from thinwire.base.options import resolve
from thinwire.config.cell import Cell
from thinwire.config.clusters import load_cluster
from thinwire.config.entries import ablation, added_later, entries_of
from thinwire.config.entry_schema import EVERY, Entry
from thinwire.config.grid_subset import WHOLE, Subset
from thinwire.config.sources import prepares
from thinwire.config.suite import load, path_of
from thinwire.config.suite_problems import (
    claim_problems,
    ladder_problems,
    prepare_from_problems,
    preparing_cell,
    simulate_problems,
    track_problems,
    without_data_problems,
)
from thinwire.config.suite_schema import Suite
from thinwire.config.suite_task import task_problems
from thinwire.config.yaml_file import Module
from thinwire.optim.recipe import Recipe
from thinwire.plugins import show

# The whole grid is built in memory, and planned at once. That of the paper has less than a tenth of this.
MOST_CELLS = 20_000


def cells(name: str) -> list[Cell]:
    """All cells of a suite, by its name. Plug-ins are found but not imported.

    Raises:
        UserError: the suite is not valid, or names a plug-in that does not exist.
    """
    suite = load(name)
    entries = entries_of(suite)
    datasets, models, methods = _modules(suite.datasets), _modules(suite.models), _modules(entries)
    _require_none(name, _problems_of(suite, datasets, models, methods))
    cluster = None if suite.cluster is None else load_cluster(suite.cluster)
    places = [
        (dataset, model, size, _methods_at(suite, dataset.label, model.label, size.label))
        for dataset in datasets
        for model in models
        for size in suite.workers
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
            prepare_from=preparing_cell(entries[method.label].prepare_from, dataset, repetition, datasets),
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
    methods = _modules(entries_of(here))
    shared = {
        method.label: first if here is not suite and _prepares(method.use) else here for method in methods
    }
    recipes = {label: found.recipe_of(label) for label, found in shared.items()}
    preparers = [_preparer_of(method, methods, recipes).label for method in methods]
    return [
        (method, here.recipe_of(method.label, dataset), of, shared[of].recipe_of(of, dataset))
        for method, of in zip(methods, preparers)
    ]


@cache
def _prepares(use: str) -> bool:
    return plugins.get("method", use).defines("prepare")


def cells_as_it_ran(name: str, ran: Collection[str]) -> list[Cell]:
    """The cells of a suite without those of methods that were added after its runs.

    Args:
        name: of the suite.
        ran: labels of the methods that have runs.
    """
    later = added_later(load(name), ran)
    return [cell for cell in cells(name) if cell.method.label not in later]


def cell(name: str, path: str) -> Cell:
    """One cell of a suite, by its path.

    Raises:
        UserError: the suite has no such cell.
    """
    every = {cell.path: cell for cell in cells(name)}
    if path not in every:
        raise UserError(
            f"suite {name} has no cell {path!r}: it has {len(every)} cells, and the nearest is "
            f"{nearest(path, every)}"
        )
    return every[path]


def preparation(name: str, path: str) -> Cell:
    """The cell that the preparation at this path is made for.

    Raises:
        UserError: no method of the suite prepares anything there.
    """
    every = {cell.preparation: cell.preparing for cell in cells(name) if prepares(cell)}
    if path not in every:
        there = f"it has {', '.join(every)}" if every else "none of its methods prepares anything"
        raise UserError(f"suite {name} has no preparation {path!r}: {there}")
    return every[path]


def require_as_planned(cell: Cell, planned: str | None, now: str) -> None:
    """Require that nothing that decides a result was changed after its job was planned.

    Raises:
        UserError: the present fingerprint is not the planned one.
    """
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
    datasets, models, methods = _modules(suite.datasets), _modules(suite.models), _modules(entries_of(suite))
    found = _problems_of(suite, datasets, models, methods)
    for kind, modules in (("dataset", datasets), ("model", models), ("method", methods)):
        there = plugins.find(kind)
        for module in modules:
            try:
                if module.use in there:
                    resolve(there[module.use].load(), module.options)
            except plugins.PluginError:
                continue
            except Problems as error:
                found += [f"{kind}s.{module.label}.options.{line}" for line in error.found]
    _require_none(name, found)


def _modules(entries: dict[str, Entry]) -> list[Module]:
    return [Module(label, e.use or label, e.options) for label, e in entries.items()]


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


def _problems_of(
    suite: Suite, datasets: list[Module], models: list[Module], methods: list[Module]
) -> list[str]:
    """The problems of a suite, except those of its options: plug-ins that do not exist, for instance."""
    found = []
    wanted = {"dataset": datasets, "model": models, "method": methods}
    for kind, modules in wanted.items():
        there = plugins.find(kind)
        found += [
            f"{kind}s.{module.label}: there is no {kind} {module.use!r}; there are {', '.join(there)}"
            for module in modules
            if module.use not in there
        ]
    for kind, modules in wanted.items():
        if alike := clash(module.label for module in modules):
            found.append(f"{kind}s: {alike}")
    if suite.baseline not in {module.label for module in methods}:
        found.append(f"baseline: {suite.baseline!r} is not one of the methods")
    elif part := ablation(suite.baseline, suite.methods.get(suite.baseline, Entry())):
        found.append(
            f"baseline: {suite.baseline!r} is an ablation of its method ({', '.join(part)}): choose a label "
            "without this option"
        )
    star = suite.methods.get(EVERY)
    if suite.leave_out and star is None:
        found.append("leave_out: there is no '*' among the methods to leave anything out of")
    found += task_problems(suite)
    found += simulate_problems(suite)
    found += without_data_problems(suite)
    found += claim_problems(suite)
    found += ladder_problems(suite)
    found += track_problems(suite)
    found += prepare_from_problems(suite)
    there = plugins.find("method")
    found += [
        f"leave_out: there is no method {use!r}; there are {', '.join(there)}"
        for use in suite.leave_out
        if use not in there
    ]
    if star and star != Entry():
        found.append(
            "methods.*: it stands for many modules and takes no keys, such as `use`, `options` or `batch`"
        )
    lengths = suite.repetitions, len(datasets), len(models), len(methods), len(suite.workers)
    if prod(lengths) > MOST_CELLS:
        numbers = "{:,} repetitions x {} data sets x {} models x {} methods x {} numbers of workers"
        found.append(
            f"{numbers.format(*lengths)} are {prod(lengths):,} cells: share them among suites of at most "
            f"{MOST_CELLS:,}"
        )
    return found


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
