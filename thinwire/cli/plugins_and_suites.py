"""`thinwire list`, `show` and `new`; and of a suite `cells`, `schema`, `data` and `prepare`."""

import shlex
import subprocess
import sys
from argparse import Namespace
from contextlib import suppress
from pathlib import Path
from textwrap import indent

from rich.console import Console
from rich.table import Table

from thinwire import plugins
from thinwire.base import folders
from thinwire.base.errors import UserError, quoted
from thinwire.base.files import locked, writing
from thinwire.base.folders import require_label, require_suite_name
from thinwire.base.learning import CLASSIFICATION
from thinwire.base.options import resolve
from thinwire.config import yaml_file
from thinwire.config.cell import Cell
from thinwire.config.configuration import json_schema
from thinwire.config.expand import cells, preparation, require_as_planned, require_valid
from thinwire.config.grid_subset import Subset
from thinwire.config.hardware import accelerator_of, unlike_recipe
from thinwire.config.suite import load, stages, suite_names
from thinwire.config.trials import PREFIX, Stage, finalists_path, is_finals, only_finalists
from thinwire.data.dataset import lay_out
from thinwire.launch.placement import gpus_claimed, gpus_of_preparation
from thinwire.plugins import ROOT, about_method
from thinwire.train.record_check import cell_states, counts
from thinwire.train.result_files import data_folder, prepare_command, prepared_folder

_SUITE = """\
title: {title}. What it compares, in one line
seed: 1 # of all random numbers
repetitions: 2 # of each cell, with other random numbers, so that a difference has an interval
datasets:
{dataset}models:
{model}# LABEL: {{use: MODULE, options: {{...}}}}; without `use`, the label is the module.
methods: # tables compare with ssgd
{method}workers: [4] # or {{workers: 8, nodes: 2}}, on two machines
# The same for all methods. The file README.md in the config/ of thinwire explains all keys.
recipe:
  epochs: 4
  batch: 64
  batch_per: run # all workers together; `worker`: each
  optimizer: {{lr: 0.1, momentum: 0.9}}
"""
# What a suite has where there is nothing of one's own.
_USUAL = {"dataset": "digits", "model": "cnn", "method": "local_sgd"}


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


def new_main(arguments: Namespace) -> int:
    """Write a plug-in or a suite, and print the command that comes next."""
    kind, name, folder = arguments.kind, arguments.name, _home()
    if kind == "suite":
        path = folder / "config" / f"{require_suite_name(name)}.yaml"
        taken, text = name in suite_names(), _new_suite(folder, name)
    else:
        path = folder / f"{kind}s" / f"{require_label(name)}.py"
        template = (ROOT / f"{kind}s" / f"_new_{kind}.py").read_text()
        taken, text = name in plugins.find(kind), template.replace("NAME", name)
    if taken or path.exists():
        raise UserError(f"there is a {kind} {name} already: take another name")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    following = {
        "method": [["check", name], ["new", "suite", "SUITE"]],
        "model": [["new", "suite", "SUITE"]],
        "dataset": [["data", name], ["new", "suite", "SUITE"]],
    }
    commands = _after_suite(name) if kind == "suite" else following[kind]
    print(f"wrote {path}; next:")
    for words in commands:
        print("  " + shlex.join(["thinwire", *_to_find(folder), *words]))
    return 0


def _home() -> Path:
    """One's own folder, or else the working folder, which becomes it; in a clone of the project the clone."""
    inside = Path.cwd().is_relative_to(ROOT)
    return folders.own() or (ROOT if inside else Path.cwd())


def _to_find(folder: Path) -> list[str]:
    """What a command needs to find the folder."""
    return [] if Path.cwd().is_relative_to(ROOT) or folder == Path.cwd() else ["--plugins", str(folder)]


def _new_suite(folder: Path, title: str) -> str:
    """A suite of what is in the folder of one's own."""
    used = {kind: _own(kind, folder) or [usual] for kind, usual in _USUAL.items()}
    used["method"].insert(0, "ssgd")
    entries = {kind: yaml_file.text_of({name: {} for name in names}) for kind, names in used.items()}
    return _SUITE.format(title=title, **{kind: indent(text, "  ") for kind, text in entries.items()})


def _own(kind: str, folder: Path) -> list[str]:
    """The plug-ins of one's own, of those that learn something those that classify images."""
    there, untracked = plugins.find(kind).values(), _untracked(f"{kind}s") if folder == ROOT else set()
    own = [p for p in there if p.path in untracked or (folder != ROOT and folders.belongs(p.path, folder))]
    return [p.name for p in own if kind == "method" or p.literal("task") in (None, CLASSIFICATION.name)]


def _untracked(place: str) -> set[Path]:
    """The files in a folder of the clone that git does not track, which are one's own; none without git."""
    command = ["git", "-C", str(ROOT), "ls-files", "--others", "--", place]
    with suppress(FileNotFoundError):
        listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        return {ROOT / line for line in listed.splitlines()}
    return set()


def _after_suite(name: str) -> list[list[str]]:
    """Prepare the data sets of a suite, and train a cell of its last method."""
    every = cells(name)
    data = dict.fromkeys(cell.data.use for cell in every)
    last = next(cell for cell in every if cell.method == every[-1].method)
    return [*(["data", dataset] for dataset in data), ["run", name, last.path]]


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


def prepare_main(arguments: Namespace) -> int:
    """Let a method prepare, and publish what it made."""
    from thinwire.launch import local_processes  # torch, which laying out data does not need
    from thinwire.train.run_cell import Interrupted

    require_valid(arguments.suite)
    cell = preparation(arguments.suite, arguments.preparation)
    require_as_planned(cell, arguments.fingerprint, cell.preparation_fingerprint)
    # A method may change the working directory.
    results = arguments.results.absolute()
    try:
        with gpus_claimed(gpus_of_preparation(cell)):
            every = load(arguments.suite).checkpoint_every_seconds
            made = local_processes.run_preparation(cell, results, every)
    except Interrupted as error:
        print(f"{error}; {prepare_command(cell, results)} goes on from here", file=sys.stderr)
        return 128 + error.number
    print(made.status if made.reason is None else f"{made.status}: {made.reason}")
    print(prepared_folder(results, cell))
    return int(made.status == "failed")


def data_main(arguments: Namespace) -> int:
    """Fetch, verify and lay out one data set."""
    if arguments.place is not None and not arguments.place.is_dir():
        raise UserError(f"--from {arguments.place}: there is no such folder")
    label = arguments.label or arguments.dataset
    require_label(label)
    dataset = plugins.get("dataset", arguments.dataset).load()
    folder = data_folder(arguments.results, label)
    download = arguments.results / "download" / label
    made = dataset(resolve(dataset, _options(arguments.options)))
    with locked(download.with_name(f"{label}.lock"), f"the data set {label}"):
        lay_out(label, made, folder, arguments.place, download)
    print(f"{label} is in {folder}")
    return 0


def _options(text: str) -> dict[str, object]:
    """Read the options from JSON, as those in a suite."""
    options = yaml_file.parse(text, "--options")
    if not isinstance(options, dict) or not all(isinstance(name, str) for name in options):
        raise UserError(f"--options {quoted(text)}: options are a mapping, as in '{{\"size\": 64}}'")
    return options
