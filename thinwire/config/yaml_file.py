"""Reads YAML that people write: text, numbers, lists and mappings, within limits. An error is one sentence.

The rest of YAML is not needed here, and it has crashed programs. Aliases can expand a page to gigabytes,
nesting can overflow the stack, and Python cannot print very long numbers.
"""

import re
import unicodedata
from pathlib import Path
from typing import Any

import yaml

from thinwire.errors import UserError, quoted
from thinwire.plugins import show

# The suites that come with the project have up to 4,194 bytes, 284 values and 6 levels.
MOST_BYTES = 256 * 2**10
MOST_VALUES = 50_000  # with all aliases expanded
MOST_LEVELS = 50  # with all aliases expanded
# The largest integer of 64 bits, as tensors, tables and seeds have them.
LARGEST_NUMBER = 2**63 - 1

_SIMPLE = ("null", "bool", "int", "float", "str", "seq", "map")
_UNKNOWN = None  # the tag of PyYAML's constructor that refuses unknown tags
_INVISIBLE = ("Cc", "Cs")  # control characters and surrogates


class _Loader(yaml.SafeLoader):
    """Refuses a text beyond the limits while it reads, before much of it is in memory."""

    # Dates, sets and binary data are not needed here. A date is read as text.
    yaml_constructors = {  # noqa: RUF012
        tag: constructor
        for tag, constructor in yaml.SafeLoader.yaml_constructors.items()
        if tag is _UNKNOWN or tag.rpartition(":")[2] in _SIMPLE
    }
    yaml_implicit_resolvers = {  # noqa: RUF012
        first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._level = 0
        # For each complete node: its numbers of values and of levels, with all aliases expanded.
        self._extent: dict[yaml.Node, tuple[int, int]] = {}

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Compose a node as PyYAML does, which itself sets no limits."""
        mark, alias = self.peek_event().start_mark, self.check_event(yaml.AliasEvent)
        self._level += 1
        _require(self._level <= MOST_LEVELS, f"more than {MOST_LEVELS} levels", mark)
        node = super().compose_node(parent, index)
        self._level -= 1
        assert node is not None, "PyYAML composes None only at the end of the stream"
        if node not in self._extent:
            if alias:
                raise _error("an alias is inside the value to which it refers", mark)
            inside = [self._extent[child] for child in _children(node)]
            values = 1 + sum(count for count, _ in inside)
            self._extent[node] = values, 1 + max((levels for _, levels in inside), default=0)
        values, levels = self._extent[node]
        _require(values <= MOST_VALUES, f"more than {MOST_VALUES:,} values, with all aliases expanded", mark)
        _require(levels <= MOST_LEVELS, f"more than {MOST_LEVELS} levels, with all aliases expanded", mark)
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        """Construct a value as PyYAML does, but name the line if the value does not fit its tag."""
        try:
            value = super().construct_object(node, deep)
        except (ValueError, LookupError, AttributeError, TypeError):
            type_name = str(node.tag).rpartition(":")[2]
            raise _error(f"{quoted(node.value)} cannot be read as {type_name}", node.start_mark) from None
        if isinstance(value, int):
            _require(abs(value) <= LARGEST_NUMBER, f"a number beyond {LARGEST_NUMBER:,}", node.start_mark)
        for character in value if isinstance(value, str) else "":
            if unicodedata.category(character) in _INVISIBLE and character not in "\n\t":
                raise _error(f"the text has the character {character!a}", node.start_mark)
        return value

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Construct a mapping, and refuse a key that occurs twice: PyYAML would silently drop one."""
        seen = set()
        for key_node, _ in node.value:
            # A merge takes keys from another mapping. The keys of this one have precedence.
            merge = key_node.tag == "tag:yaml.org,2002:merge"
            key = key_node.value if merge else self.construct_object(key_node, deep=True)
            if not isinstance(key, str | int | float | None):
                continue  # PyYAML itself refuses such a key
            if key in seen:
                raise _error(f"the key {quoted(key)} occurs twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


# YAML 1.1 reads 1e-2 as text, because it has no decimal point.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return node.value if isinstance(node, yaml.SequenceNode) else []


def _error(what: str, mark: yaml.Mark) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem=what, problem_mark=mark)


class _BeyondLimit(yaml.MarkedYAMLError):
    """Valid YAML that is beyond a limit."""


def _require(holds: bool, what: str, mark: yaml.Mark) -> None:
    if not holds:
        raise _BeyondLimit(problem=what, problem_mark=mark)


def read(path: Path) -> Any:
    """The content of a YAML file.

    Raises:
        UserError: it cannot be read, is not valid YAML or is beyond the limits; the message names the line.
    """
    if path.exists() and not path.is_file():
        raise UserError(f"{show(path)} is not a file: write the suite into a file of this name")
    try:
        with path.open("rb") as file:
            content = file.read(MOST_BYTES + 1)
        _require_short(len(content), show(path))
        return parse(content.decode("utf-8-sig"), show(path))
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{show(path)} cannot be read ({error})") from None


def parse(text: str, where: str) -> Any:
    """The content of a text in YAML, which includes JSON.

    Raises:
        UserError: it is not valid YAML or is beyond the limits; the message names `where` and the line.
    """
    _require_short(len(text), where)
    try:
        return yaml.load(text, _Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        what = " ".join(str(getattr(error, "problem", None) or error).split())
        if isinstance(error, _BeyondLimit):
            raise UserError(f"{where}{line}: it has {what}, and thinwire reads no more") from None
        raise UserError(f"{where}{line}: this is not sound YAML ({what})") from None


def _require_short(length: int, where: str) -> None:
    if length > MOST_BYTES:
        raise UserError(f"{where}: it has more than {MOST_BYTES:,} bytes, and thinwire reads no more")


class _Dumper(yaml.SafeDumper):
    """Quotes every text that `_Loader` would read as something else, such as the digest 12e4."""

    yaml_implicit_resolvers = _Loader.yaml_implicit_resolvers


def text_of(content: Any) -> str:
    """The YAML of some content, which `read` reads back as it is."""
    return yaml.dump(content, Dumper=_Dumper, sort_keys=False, width=110)
