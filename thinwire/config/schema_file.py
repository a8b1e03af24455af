"""Reads the YAML files of a schema: suites, tunings, clusters and compute profiles."""

from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from thinwire.config import yaml_file
from thinwire.errors import Problems, UserError
from thinwire.label import nearest, require_label
from thinwire.optim.recipe import Strict
from thinwire.options import problems
from thinwire.plugins import show

S = TypeVar("S", bound=Strict)


def read(path: Path, schema: type[S], what: str, explained_in: str) -> S:
    """Read and validate a file.

    Args:
        path: of the file.
        schema: of its keys.
        what: the file is, for example `a suite`.
        explained_in: the page that explains the keys.

    Raises:
        UserError: the file has errors; one message lists all of them.
    """
    content = mapping(path, what, explained_in)
    try:
        return schema.model_validate(content)
    except ValidationError as error:
        raise Problems(show(path), problems(error)) from None


def mapping(path: Path, what: str, explained_in: str) -> dict[str, Any]:
    """The content of a file; the arguments are those of `read`.

    Raises:
        UserError: it is no mapping.
    """
    content = yaml_file.read(path)
    if not isinstance(content, dict):
        raise UserError(f"{show(path)}: {what} is a mapping; {explained_in} shows its keys")
    return content


def named(folder: Path, name: str, what: str) -> Path:
    """The file of this name in a folder of config/.

    Raises:
        UserError: there is none; the message has the nearest name.
    """
    require_label(name)
    there = names(folder)
    if name not in there:
        raise UserError(
            f"there is no {what} {name!r}: config/{folder.name}/ has {', '.join(there)}; the nearest is "
            f"{nearest(name, there)}"
        )
    return folder / f"{name}.yaml"


def names(folder: Path) -> list[str]:
    """The names of all files in a folder of config/."""
    return sorted(path.stem for path in folder.glob("*.yaml"))
