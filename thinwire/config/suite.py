"""Suites by name: one file in `config/` describes which cells to run.

A track is a suite that anybody may enter and nobody edits: each method in the folder of one's own has an
entry there. `config/entries/NAME.yaml`, beside the method, may have what it chooses itself.
"""

import os
from pathlib import Path

from pydantic import Field

from thinwire import plugins
from thinwire.base import folders
from thinwire.base.errors import Problems, UserError
from thinwire.base.folders import require_suite_name
from thinwire.base.options import Strict
from thinwire.config import tuning_space, yaml_file
from thinwire.config.entry_schema import Entry
from thinwire.config.suite_schema import Suite
from thinwire.config.trials import NO_ENDINGS, PREFIX, Stage, stages_of, suite_of_trials
from thinwire.config.tuned import with_tuned
from thinwire.optim.recipe import Optimizer
from thinwire.optim.tunable import Tunable
from thinwire.plugins import ROOT, show

ENTRIES = Path("config/entries")
# Folders in config/ with files of other kinds.
_NO_SUITES = ("accelerators/", "clusters/", "entries/", "tuning/", "tuned/")
# What claims are not tested, and what Snakemake runs.
_NO_SUITE = ("claims/untested", "config")


def path_of(name: str) -> Path:
    """The file of a suite, by name (`demo`, `claims/mp2`)."""
    path = f"config/{name}.yaml"
    return folders.home(path, ROOT) / path


def load(name: str) -> Suite:
    """Read and validate a suite; `tuning/NAME` is that of the trials of the suite NAME.

    Raises:
        UserError: the name is not valid, there is no such suite, or another one differs only in case; or the
            file has errors, and one message lists all of them with their paths.
    """
    require_suite_name(name)
    if name.startswith(PREFIX):
        stage = Stage.named(name)
        tuning = tuning_space.read(stage.of)
        return suite_of_trials(stage, _named(stage.of), tuning)
    suite = _named(name)
    suite = suite if suite.tuned is None else with_tuned(suite, path_of(name))
    return suite if suite.track is None else _with_own(suite)


def stages(name: str) -> list[Stage]:
    return stages_of(name, _named(name), tuning_space.read(name))


def stage_names(name: str) -> list[str]:
    """The suites of all stages of the tuning that this suite begins; any other suite alone."""
    if not name.startswith(PREFIX):
        return [name]
    return [stage.name for stage in stages(Stage.named(name).of)]


def _named(name: str) -> Suite:
    """The suite of this name, as its file has it."""
    path = path_of(name)
    there = suite_names()
    for other in there:
        if other != name and other.casefold() == name.casefold():
            raise UserError(
                f"the suites {name} and {other} differ in upper and lower case only, which some file systems "
                "do not tell apart: write the name as its file has it, and rename one if there are two"
            )
    if not os.path.lexists(path) or not _is_suite(name):
        raise UserError(
            f"there is no suite {name!r}: config/ has {', '.join(there)} (by name, without folder and .yaml)"
        )
    if name.endswith(NO_ENDINGS):
        raise UserError(
            f"{show(path)}: suites of trials have names that end in {', '.join(NO_ENDINGS)}: rename it"
        )
    return read(path)


def read(path: Path) -> Suite:
    return yaml_file.read(path, Suite, "a suite", "config/README.md")


def suite_names() -> list[str]:
    """The names of all suites, the project's and one's own."""
    return [*suite_files()]


def suite_files() -> dict[str, Path]:
    """The files of all suites, by name."""
    found = folders.below(ROOT / "config", ROOT)
    return {name: path for name, path in found.items() if _is_suite(name)}


def _is_suite(name: str) -> bool:
    return name not in _NO_SUITE and not name.startswith(_NO_SUITES)


class OwnEntry(Strict):
    """What a method has of its own in a track; all else is that of the track."""

    options: dict[str, object] = Field(default={}, description="its options; the others keep their defaults")
    optimizer: Optimizer | None = Field(default=None, description="instead of all of the recipe's")
    recipe: Tunable | None = Field(default=None, description="what tuning may choose, as in a suite")


def entry_file(suite: Suite, label: str) -> Path | None:
    """The file with what a method of one's own chooses itself in a track; None if there is none."""
    home = None if suite.track is None else folders.own()
    path = home and home / ENTRIES / f"{label}.yaml"
    return path if path and path.exists() else None


def _with_own(suite: Suite) -> Suite:
    """The suite of a track, with the methods of one's own."""
    home = folders.own()
    if home is None:
        return suite
    for name, plugin in plugins.find("method").items():
        if not folders.belongs(plugin.path, home):
            continue
        if name in suite.methods:
            raise UserError(f"{plugin.path}: the track has a method {name} already: rename the file")
        path = home / ENTRIES / f"{name}.yaml"
        own = yaml_file.read(path, OwnEntry, "an entry", "docs/submit.md") if path.exists() else OwnEntry()
        entry = Entry(options=own.options, optimizer=own.optimizer, recipe=own.recipe)
        suite = suite.model_copy(update={"methods": {**suite.methods, name: entry}})
        try:
            suite.recipe_of(name)
        except ValueError as error:
            raise Problems(show(path), [str(error)]) from None
    return suite
