"""Reading YAML files, and the types of values that several schemas share."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypeVar

import yaml
from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, model_validator

from thinwire.base import folders
from thinwire.base.errors import Problems, UserError, nearest, quoted
from thinwire.base.folders import require_label, require_suite_name
from thinwire.base.options import Strict, problems
from thinwire.plugins import show

S = TypeVar("S", bound=Strict)


class _Loader(yaml.CSafeLoader):
    """Refuses a key that occurs twice: PyYAML would silently drop one."""

    def __init__(self, text: str | bytes) -> None:
        super().__init__(text)
        self._checked: set[yaml.Node] = set()

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        """Check the keys once, before PyYAML adds those of merged mappings (`<<`), which may recur."""
        if node in self._checked:
            return
        self._checked.add(node)
        seen = set()
        for key, _ in node.value:
            if str(key.value) in seen:
                raise yaml.MarkedYAMLError(
                    None, None, f"the key {quoted(key.value)} occurs twice", key.start_mark
                )
            seen.add(str(key.value))
        super().flatten_mapping(node)


class _Dumper(yaml.SafeDumper):
    """Quotes every text that `_Loader` would read as something else, such as the digest 12e4."""


for _class in (_Loader, _Dumper):
    # A date is text, and so is 1e-2 to YAML 1.1, because it has no decimal point.
    _class.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
        for first, resolvers in _class.yaml_implicit_resolvers.items()
    }
    _class.add_implicit_resolver(
        "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
    )


def parse(text: str | bytes, where: str) -> object:
    """The content of a text in YAML, which includes JSON; a UserError names `where` and the line."""
    try:
        return yaml.load(text, _Loader)
    except (yaml.YAMLError, ValueError, LookupError, AttributeError) as error:  # of a tag that does not fit
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        what = " ".join(str(getattr(error, "problem", None) or error).split())
        raise UserError(f"{where}{line}: this is not sound YAML ({what})") from None


def text_of(content: object) -> str:
    """The YAML of some content, which `parse` reads back as it is."""
    return yaml.dump(content, Dumper=_Dumper, sort_keys=False, width=110)


def mapping(path: Path, what: str, explained_in: str) -> dict[str, object]:
    """The content of a file that is `what` (`a suite`), with keys that a page explains; or a UserError."""
    try:
        content = parse(path.read_bytes(), show(path))
    except OSError as error:
        raise UserError(f"{show(path)} cannot be read ({error.strerror})") from None
    if not isinstance(content, dict):
        raise UserError(f"{show(path)}: {what} is a mapping; {explained_in} shows its keys")
    return content


def read(path: Path, schema: type[S], what: str, explained_in: str) -> S:
    """Read a file as `mapping` does, and validate it as `validated` does; their errors are its errors."""
    return validated(schema, mapping(path, what, explained_in), path)


def validated(schema: type[S], content: dict[str, object], path: Path) -> S:
    """What a file has, under its schema; a UserError lists all that is wrong in it."""
    try:
        return schema.model_validate(content)
    except ValidationError as error:
        raise Problems(show(path), problems(error)) from None


def named(folder: Path, name: str, what: str) -> Path:
    """The file of this name in a folder of config/; a UserError has the nearest name."""
    require_label(name)
    there = folders.below(folder)
    if name not in there:
        raise UserError(
            f"there is no {what} {name!r}: config/{folder.name}/ has {', '.join(there)}; the nearest is "
            f"{nearest(name, there)}"
        )
    return there[name]


def names(folder: Path) -> list[str]:
    """The names of all files in a folder of config/, the project's and one's own."""
    return sorted(folders.below(folder))


# Far more than anybody runs: a typo gives an error message and does not fill the memory.
MOST_WORKERS = 100_000


@dataclass(frozen=True)
class Module:
    """A plug-in with its options, and the label that it has in paths and tables."""

    label: str
    use: str
    options: dict[str, object]


def _one_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError("it must be one line, without tabs")
    return text


def _for_pydantic(require: Callable[[str], str]) -> Callable[[str], str]:
    """The same check with the ValueError that pydantic expects."""

    def check(text: str) -> str:
        try:
            return require(text)
        except UserError as error:
            raise ValueError(str(error)) from None

    return check


check_label = _for_pydantic(require_label)


OneLine = Annotated[str, AfterValidator(_one_line)]
Label = Annotated[str, AfterValidator(check_label)]
SuiteName = Annotated[str, AfterValidator(_for_pydantic(require_suite_name))]


class Size(Strict):
    """A number of workers on a number of nodes."""

    workers: int = Field(ge=1, le=MOST_WORKERS, description="replicas")
    nodes: int = Field(default=1, ge=1, description="nodes over which they are spread evenly")

    @model_validator(mode="after")
    def _even(self) -> "Size":
        if self.workers % self.nodes:
            raise ValueError(f"{self.workers} workers cannot be spread evenly over {self.nodes} nodes")
        return self

    @property
    def label(self) -> str:
        return f"w{self.workers}" + (f"n{self.nodes}" if self.nodes > 1 else "")


def _size(value: object) -> object:
    """`4` means four workers on one node."""
    return {"workers": value} if isinstance(value, int) else value


NumberOfWorkers = Annotated[Size, BeforeValidator(_size, json_schema_input_type=int | Size)]
