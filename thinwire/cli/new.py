"""`thinwire new`: a plug-in or a suite to begin with, which works as it is."""

import shlex
from argparse import Namespace
from pathlib import Path
from textwrap import indent

from thinwire import plugins
from thinwire.base import folders
from thinwire.base.errors import UserError
from thinwire.base.files import writing
from thinwire.base.learning import CLASSIFICATION
from thinwire.base.names import require_label, require_suite_name
from thinwire.config import suite, yaml_file
from thinwire.config.expand import cells
from thinwire.plugins import ROOT

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


def new_main(arguments: Namespace) -> int:
    """Write a plug-in or a suite, and print the command that comes next."""
    kind, name, folder = arguments.kind, arguments.name, _folder()
    if kind == "suite":
        path = folder / "config" / f"{require_suite_name(name)}.yaml"
        taken, text = name in suite.suite_names(), _suite(folder, name)
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
    commands = _of_suite(name) if kind == "suite" else following[kind]
    print(f"wrote {path}; next:")
    for words in commands:
        print("  " + shlex.join(["thinwire", *_option(folder), *words]))
    return 0


def _folder() -> Path:
    """One's own folder, or else the working folder, which becomes it; in a clone of the project the clone."""
    inside = Path.cwd().is_relative_to(ROOT)
    return folders.own() or (ROOT if inside else Path.cwd())


def _option(folder: Path) -> list[str]:
    """What a command needs to find the folder."""
    return [] if Path.cwd().is_relative_to(ROOT) or folder == Path.cwd() else ["--plugins", str(folder)]


def _suite(folder: Path, title: str) -> str:
    """A suite of what is in the folder of one's own."""
    used = {kind: _own(kind, folder) or [usual] for kind, usual in _USUAL.items()}
    used["method"].insert(0, "ssgd")
    entries = {kind: yaml_file.text_of({name: {} for name in names}) for kind, names in used.items()}
    return _SUITE.format(title=title, **{kind: indent(text, "  ") for kind, text in entries.items()})


def _own(kind: str, folder: Path) -> list[str]:
    """The plug-ins of one's own, of those that learn something those that classify images."""
    found = [] if folder == ROOT else plugins.find(kind).values()
    own = [plugin for plugin in found if folders.belongs(plugin.path, folder)]
    return [p.name for p in own if kind == "method" or p.literal("task") in (None, CLASSIFICATION.name)]


def _of_suite(name: str) -> list[list[str]]:
    """Prepare the data sets of a suite, and train a cell of its last method."""
    every = cells(name)
    data = dict.fromkeys(cell.data.use for cell in every)
    last = next(cell for cell in every if cell.method == every[-1].method)
    return [*(["data", dataset] for dataset in data), ["run", name, last.path]]
