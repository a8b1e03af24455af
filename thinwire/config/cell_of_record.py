"""The cell that a record says it is of, without its suite."""

from typing import Any

from pydantic import ValidationError

from thinwire.config.cell import Cell, PreparingCell
from thinwire.config.cluster_file import ClusterDescription
from thinwire.config.types import Module, Size
from thinwire.errors import UserError
from thinwire.optim.recipe import Recipe


def cell_of(identity: dict[str, Any], deviates: bool = False) -> Cell:
    """Return the cell with this identity.

    Args:
        identity: what `Cell.identity` gave, under these or earlier rules.
        deviates: does the cell differ from its suite?

    Raises:
        UserError: no cell has this identity.
    """
    fields = {name: value for name, value in identity.items() if name != "rules"}
    try:
        for module in ("data", "model", "method"):
            fields[module] = Module(**fields[module])
        for recipe in ("recipe", "preparer_recipe"):
            fields[recipe] = Recipe.of_dump(fields[recipe])
        if "cluster" in fields:
            fields["cluster"] = ClusterDescription.model_validate(fields["cluster"])
        if "prepare_from" in fields:
            other = fields["prepare_from"]
            fields["prepare_from"] = PreparingCell(**{**other, "data": Module(**other["data"])})
        Size(workers=fields["workers"], nodes=fields["nodes"])
        made = Cell(**fields, deviates=deviates)
        same = {**made.identity(), "rules": identity.get("rules")} == identity
    except (KeyError, TypeError, AttributeError, ValueError, ValidationError):
        same = False
    if not same:
        raise UserError("its cell is none that a suite can have")
    return made
