"""`thinwire list`, `show`, `cells` and `check`."""

import ast
import sys
from argparse import Namespace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from thinwire import plugins
from thinwire.about_method import about_method
from thinwire.base.errors import UserError
from thinwire.base.names import nearest
from thinwire.config import clusters, grid_subset
from thinwire.config.cell import Cell
from thinwire.config.expand import cells
from thinwire.plugins import ROOT
from thinwire.train.reuse import cell_states, counts


def list_main(arguments: Namespace) -> int:
    """Print every plug-in with the first line of its docstring, and a broken one with its error."""
    console = Console(highlight=False, markup=False)
    broken = False
    for kind in plugins.CLASS:
        table = Table(title=f"{kind}s", title_justify="left", show_header=False, box=None, pad_edge=False)
        table.add_column(no_wrap=True)
        table.add_column()
        for name, plugin in plugins.find(kind).items():
            try:
                plugin.load()
                table.add_row(f"  {name}", plugin.title)
            except plugins.PluginError as error:
                broken = True
                table.add_row(f"  {name}", f"broken: {error}", style="red")
        console.print(table)
        console.print()
    return int(broken)


def show_main(arguments: Namespace) -> int:
    """Print all that can be said about a method from its module alone."""
    about = about_method(arguments.method)
    console = Console(highlight=False, markup=False)
    console.print(f"{about.name}  ({about.path})\n", soft_wrap=True)
    console.print(about.docstring, soft_wrap=True)
    if about.options:
        table = _table("options", "name", "type", "default", "what it is")
        for option in about.options:
            table.add_row(*option)
        console.print()
        console.print(table)
    console.print()
    if about.provenance:
        table = _table("where its steps come from", "step", "source", "where, or why")
        for part in about.provenance:
            table.add_row(part.what, part.source, part.where)
        console.print(table)
    else:
        console.print("where its steps come from: not declared")
    for need in about.needs:
        console.print(f"\n{need}", soft_wrap=True)
    console.print()
    for way in about.equals_ssgd + about.ablations:
        console.print(way, soft_wrap=True)
    return 0


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table


def cells_main(arguments: Namespace) -> int:
    """Print the cells of a suite, one on each line, with what there is of each."""
    chosen = grid_subset.of_words(arguments.only).keep(cells(arguments.suite))
    if arguments.cost is not None:
        _print_cost(chosen, arguments.cost, arguments.results)
        return 0
    states = cell_states(chosen, arguments.results)
    width = max(len(of_suite.path) for of_suite in chosen)
    for of_suite, state in zip(chosen, states):
        shared = f"; prepared from {of_suite.preparation}" if of_suite.prepare_from is not None else ""
        print(f"{of_suite.path:{width}}  {state}{shared}")
    print(counts(states))
    return 0


def _print_cost(chosen: list[Cell], name: str, results: Path) -> None:
    """Print what it costs to train these cells on described GPUs."""
    from thinwire.simulation.cost import cost_of, devices_by_name  # torch, which listing cells does not need

    device_of = devices_by_name(name)
    cost = cost_of(chosen, device_of, results)
    devices = list(dict.fromkeys((d := device_of(cell)).title + ": " + d.error for cell in chosen))
    print(f"{len(chosen)} cells in {cost.jobs} jobs: {cost.gpu_hours:.3g} GPU hours, by compute profiles.")
    print(f"The longest job is {cost.longest}: {cost.longest_hours:.2g} hours.")
    print("All methods count as SSGD. Left out are evaluation, preparations and waiting in the queue.")
    print("How far off that may be:", *devices, sep="\n  ")
    precision = chosen[0].recipe.precision
    if unlike := clusters.unlike_recipe(clusters.profile_of(name, precision), precision):
        print(f"{unlike[0].upper()}{unlike[1:]}.")


_CONTRACT = ROOT / "tests" / "contract"
_IN_ONE_PROCESS = [_CONTRACT / f"test_{part}.py" for part in ("channels", "contract", "gpus")]
_ON_PROCESSES = _CONTRACT / "test_on_processes.py"


def check_main(arguments: Namespace) -> int:
    """Check the file of one method, or all methods in `methods/`."""
    try:
        import pytest
    except ModuleNotFoundError:
        raise UserError("thinwire check needs pytest: make setup, or pip install pytest") from None
    path = None if arguments.file is None else _method_file(arguments.file)
    if not _CONTRACT.is_dir():
        raise UserError(f"{_CONTRACT} is missing: start thinwire check in a clone of the repository")
    suites = [*_IN_ONE_PROCESS, _ON_PROCESSES] if arguments.processes else _IN_ONE_PROCESS
    options = ["-p", "no:cacheprovider", "-p", "tests.contract.in_forks", "-rs", "--tb=short", "--maxfail=3"]
    # What forks print through a file that they inherit would be mixed up.
    options.append("--capture=sys")
    if arguments.only is not None:
        _require_check(arguments.only, suites)
        options += ["-k", arguments.only]
    if path is None:
        for plugin in plugins.find("method").values():
            plugin.load()  # if one cannot be imported, this says why in one sentence
        what = "methods/"
    else:
        options.append(f"--method-file={path}")
        what = plugins.show(path)
    sys.path.insert(0, str(ROOT))  # where the tests are
    code = pytest.main([*map(str, suites), "-c", str(ROOT / "pyproject.toml"), *options])
    if code == pytest.ExitCode.INTERRUPTED:
        raise KeyboardInterrupt
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        raise UserError(f"{what} could not be checked: see above")
    keeps = "keeps the contract"
    if arguments.only is not None:
        keeps = f"keeps what was checked of the contract ({arguments.only})"
    elif not arguments.processes:
        keeps = "keeps the contract in one process; --processes checks it in several"
    print(f"{what}: {keeps if code == pytest.ExitCode.OK else 'breaks the contract, see above'}")
    return int(code != pytest.ExitCode.OK)


def _method_file(given: Path) -> Path:
    """Return the file of a method, of which the file, the folder or the name is given.

    Raises:
        UserError: there is none, or it cannot be imported; one sentence says why.
    """
    path = given / "__init__.py" if (given / "__init__.py").is_file() else given
    if not path.is_file():
        methods = plugins.find("method")
        if str(path) not in methods:
            raise UserError(f"{path}: there is no such file, and no method of this name")
        path = methods[str(path)].path
    path = path.resolve()
    plugins.load_file("method", path, "thinwire_checked")
    return path


def _require_check(name: str, suites: list[Path]) -> None:
    """Require that a check has this name, or a name that contains it."""
    known = [
        node.name.removeprefix("test_")
        for suite in suites
        for node in ast.parse(suite.read_bytes()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]
    if not any(name in each for each in known):
        raise UserError(f"-k {name}: no check has this name; the nearest is {nearest(name, known)}")
