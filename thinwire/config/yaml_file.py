"""YAML files that people write: what is wrong in them is one sentence, and no key may stand twice."""

import re
from pathlib import Path
from typing import Any

import yaml

from thinwire.errors import UserError
from thinwire.plugins import show


class _Loader(yaml.SafeLoader):
    """Refuses a mapping in which a key stands twice: of two, one would be dropped without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue
            if key.value in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"the key {key.value!r} stands twice", problem_mark=key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


# YAML 1.1 takes 1e-2 for text, because it has no point.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+"), list("-+0123456789")
)


def read(path: Path) -> Any:
    """The content of a YAML file.

    Raises:
        UserError: it cannot be read, or is no sound YAML; the sentence names the line.
    """
    try:
        return yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{show(path)} cannot be read ({error})") from None
    except yaml.YAMLError as error:
        where = getattr(error, "problem_mark", None)
        line = f", line {where.line + 1}" if where else ""
        what = " ".join(str(getattr(error, "problem", None) or error).split())
        raise UserError(f"{show(path)}{line}: this is not sound YAML ({what})") from None
