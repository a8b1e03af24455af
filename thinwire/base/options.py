"""Options of plug-ins. The nested dataclass `Config` gives the schema, the defaults and the help texts.

Also the strict pydantic model of all files that are read, and the sentences about what does not fit it.
"""

import ast
import dataclasses
import inspect
import io
import textwrap
import tokenize
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple, Protocol, get_args, get_origin, get_type_hints

import pydantic
from pydantic import BaseModel, ConfigDict, ValidationError

from thinwire.base.errors import Problems, quoted
from thinwire.base.folders import LONGEST_LABEL


class Strict(BaseModel):
    """Unknown keys are refused, and values are not converted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class Configured(Protocol):
    """The class of a plug-in."""

    Config: Any


class Option(NamedTuple):
    """One option, as it is shown to the user."""

    name: str
    type: str
    default: str
    help: str


def resolve(plugin_class: Configured, options: Mapping[str, object]) -> Any:
    """Return the `Config` of a plug-in with these options; all others have their defaults.

    Raises:
        Problems: every unknown name, wrong type and value out of range, in one message.
    """
    strict, types = checked(plugin_class.Config)
    # YAML has lists but no tuples.
    tuples = {name for name, type_ in types.items() if get_origin(type_) is tuple}
    given = {n: tuple(v) if n in tuples and isinstance(v, list) else v for n, v in options.items()}
    try:
        return strict(**given)
    except ValidationError as error:
        known = [option.name for option in describe(plugin_class)]
        raise Problems("", problems(error, known)) from None


def checked(config: Any) -> tuple[Any, dict[str, Any]]:
    """Return a `Config` that checks its values, and its types; any error says that a type has no meaning."""
    limits = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
    return pydantic.dataclasses.dataclass(config, config=limits), get_type_hints(config)


def problems(error: ValidationError, known: list[str] | None = None) -> list[str]:
    """Return pydantic's problems, one sentence each with the path of the value."""
    found = []
    for problem in error.errors():
        path = ".".join(_part(part) for part in problem["loc"])
        if problem["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
            among = f" (known are {', '.join(known)})" if known else ""
            found.append(f"{path}: there is no such key{among}")
        elif problem["type"] == "missing":
            found.append(f"{path}: it is missing")
        else:
            message = problem["msg"].removeprefix("Value error, ")
            message = message[0].lower() + message[1:]
            simple = isinstance(problem["input"], str | int | float | bool | None)
            given = f", not {quoted(problem['input'])}" if simple and path else ""
            found.append(f"{path}: {message}{given}".removeprefix(": "))
    return found


def _part(part: str | int) -> str:
    """Return one part of a path; it is quoted and shortened if it is long or not printable."""
    text = str(part)
    return text if text.isprintable() and len(text) <= LONGEST_LABEL else quoted(text)


def as_dict(config: Any) -> dict[str, Any]:
    """Return the options and their values, defaults included."""
    return {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}


def describe(plugin_class: Configured) -> list[Option]:
    """Return the options of a plug-in; the help of each is the comment above it or at the end of its line."""
    config = plugin_class.Config
    try:
        source = textwrap.dedent(inspect.getsource(config))
    except (OSError, TypeError):
        source = ""
    annotations, comments = _read(source)
    types = get_type_hints(config, include_extras=True)
    return [
        Option(
            field.name,
            _type(annotations.get(field.name, ""), types[field.name]),
            _default(field),
            comments.get(field.name, ""),
        )
        for field in dataclasses.fields(config)
    ]


def _read(source: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the annotation and the comments of each field in the source of a dataclass."""
    annotations: dict[str, str] = {}
    comments: dict[str, str] = {}
    by_line, alone = {}, set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            by_line[token.start[0]] = token.string.lstrip("# ")
            if not token.line[: token.start[1]].strip():
                alone.add(token.start[0])
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            annotations[node.target.id] = ast.unparse(node.annotation)
            first = node.lineno
            while first - 1 in alone:
                first -= 1
            lines = range(first, (node.end_lineno or node.lineno) + 1)
            comments[node.target.id] = " ".join(by_line[n] for n in lines if n in by_line)
    return annotations, comments


def _type(written: str, type_: object) -> str:
    """Return a type plainly, `Annotated[int, Field(ge=1)]` as `int, ge=1`; others as they are written."""
    if get_origin(type_) is Literal:
        return " | ".join(repr(value) for value in get_args(type_))
    if get_origin(type_) is Annotated:
        base, *limits = get_args(type_)
        parts = [part for limit in limits for part in getattr(limit, "metadata", [])]
        if all(map(dataclasses.is_dataclass, parts)):
            facts = [fact for part in parts for fact in dataclasses.asdict(part).items()]
            name = base.__name__ if isinstance(base, type) else str(base)
            return ", ".join([name, *(f"{key}={value}" for key, value in facts)])
    return written or str(type_)


def _default(field: dataclasses.Field[object]) -> str:
    if field.default is not dataclasses.MISSING:
        return repr(field.default)
    if field.default_factory is not dataclasses.MISSING:
        return repr(field.default_factory())
    return "(needed)"
