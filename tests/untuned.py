"""A suite of the project as its file has it, without the recipes that its tuning has chosen."""

from thinwire.config import suite, yaml_file
from thinwire.config.suite_schema import Suite


def untuned(name: str) -> Suite:
    """The suite of this name."""
    return Suite.model_validate(yaml_file.mapping(suite.path_of(name), "", "") | {"tuned": None})
