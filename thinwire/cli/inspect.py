"""`thinwire list`, `show`, `cells` and `schema`."""

from argparse import Namespace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from thinwire import plugins
from thinwire.about_method import about_method
from thinwire.config.cell import Cell
from thinwire.config.configuration import Subset, json_schema
from thinwire.config.expand import cells
from thinwire.config.hardware import accelerator_of, unlike_recipe
from thinwire.config.suite import stages
from thinwire.config.trials import PREFIX, Stage, finalists_path, is_finals, only_finalists
from thinwire.train.record_check import cell_states, counts


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
    chosen = Subset.of_words(arguments.only).keep(cells(arguments.suite))
    stage, finals = Stage.named(arguments.suite), is_finals(arguments.suite)
    if arguments.cost is not None and finals and not finalists_path(arguments.results, stage.of).exists():
        print("The best trials are not known yet, so this counts all:")
    else:
        chosen = only_finalists(chosen, arguments.results)
    if arguments.cost is not None:
        _print_cost(chosen, arguments.cost, arguments.results)
        return 0
    states = cell_states(chosen, arguments.results)
    width = max((len(of_suite.path) for of_suite in chosen), default=0)
    for of_suite, state in zip(chosen, states):
        shared = f"; prepared from {of_suite.preparation}" if of_suite.prepare_from is not None else ""
        print(f"{of_suite.path:{width}}  {state}{shared}")
    print(counts(states))
    if arguments.suite.startswith(PREFIX):
        for each in stages(stage.of):
            if each.finals and (each.again, stage.finals) == (stage.again, False):
                print(f"The best of them run again: `thinwire cells {each.name}` lists these runs.")
    return 0


def schema_main(arguments: Namespace) -> int:
    print(json_schema(arguments.kind), end="")
    return 0


def _print_cost(chosen: list[Cell], name: str, results: Path) -> None:
    """Print what it costs to train these cells on described GPUs."""
    from thinwire.simulation.cost import cost_of, devices_by_name  # torch, which listing cells does not need

    device_of = devices_by_name(name)
    cost = cost_of(chosen, device_of, results)
    devices = list(dict.fromkeys((d := device_of(cell)).title + ": " + d.error for cell in chosen))
    print(f"{len(chosen)} cells in {cost.jobs} jobs: {cost.gpu_hours:.3g} GPU hours.")
    print(f"The longest job is {cost.longest}: {cost.longest_hours:.2g} hours.")
    print("All methods count as SSGD. Left out are optimizers, evaluation, preparations and the queue.")
    print("How far off that may be:", *devices, sep="\n  ")
    precision = chosen[0].recipe.precision
    if unlike := unlike_recipe(accelerator_of(name, precision), precision):
        print(f"{unlike}.")
