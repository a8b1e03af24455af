"""The methods of one's own in a track, a suite that anybody may enter and nobody edits.

Each method in the folder of one's own has an entry there. `config/entries/NAME.yaml`, beside the method, may
have its options, and what each method may choose of the recipe.
"""

from pathlib import Path

from pydantic import Field, ValidationError

from thinwire import plugins
from thinwire.base import folders
from thinwire.base.errors import Problems, UserError
from thinwire.base.options import problems
from thinwire.config import yaml_file
from thinwire.config.entry_schema import Entry
from thinwire.config.suite_schema import Suite
from thinwire.optim.recipe import Optimizer, Strict
from thinwire.optim.tunable import Tunable
from thinwire.plugins import show

ENTRIES = Path("config/entries")


class OwnEntry(Strict):
    """What a method has of its own; all else is that of the track."""

    options: dict[str, object] = Field(default={}, description="its options; the others keep their defaults")
    optimizer: Optimizer | None = Field(default=None, description="instead of all of the recipe's")
    recipe: Tunable | None = Field(default=None, description="what tuning may choose, as in a suite")


def with_own(suite: Suite) -> Suite:
    """The suite of a track, with the methods of one's own.

    Raises:
        UserError: one has the name of a method of the track, or its entry is not valid.
    """
    home = folders.own()
    if home is None:
        return suite
    for name, plugin in plugins.find("method").items():
        if not folders.belongs(plugin.path, home):
            continue
        if name in suite.methods:
            raise UserError(f"{plugin.path}: the track has a method {name} already: rename the file")
        path = home / ENTRIES / f"{name}.yaml"
        entry = OwnEntry()
        if path.exists():
            entry = yaml_file.read(path, OwnEntry, "an entry", "docs/submit.md")
        methods = {
            **suite.methods,
            name: Entry(**{key: getattr(entry, key) for key in OwnEntry.model_fields}),
        }
        suite = suite.model_copy(update={"methods": methods})
        try:
            suite.recipe_of(name)
        except (ValueError, ValidationError) as error:
            found = problems(error) if isinstance(error, ValidationError) else [str(error)]
            raise Problems(show(path), found) from None
    return suite
