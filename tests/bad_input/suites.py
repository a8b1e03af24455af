"""A good suite, changes of it, and what is said about them."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from thinwire.base.errors import UserError

GOOD: dict[str, Any] = {
    "title": "bad input",
    "seed": 1,
    "repetitions": 1,
    "datasets": ["digits"],
    "models": {"cnn": {"options": {"width": 8}}},
    "methods": {"ssgd": None},
    "workers": [2],
    "recipe": {"epochs": 1, "batch": 8, "batch_per": "worker", "optimizer": {"lr": 0.1}},
}


def changed(changes: dict[str, Any]) -> dict[str, Any]:
    """The good suite with other values at dotted paths."""
    content = copy.deepcopy(GOOD)
    for path, value in changes.items():
        *parents, last = path.split(".")
        place = content
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value
    return content


def message(function: Callable[..., Any], *args: Any) -> str:
    """What a function refuses with: one line that can be shown."""
    with pytest.raises(UserError) as caught:
        function(*args)
    text = str(caught.value)
    assert text.isprintable()
    assert len(text) < 2000, "it fills a screen"
    return text


def cases(table: str) -> list[Any]:
    """The rows `CHANGES => WORDS | WORDS` of a table: changes in YAML, and what the refusal of them says."""
    rows = (row.split(" => ") for row in table.replace("\n    =>", " =>").strip().splitlines())
    return [pytest.param(yaml.safe_load(f"{{{was}}}"), said.split(" | "), id=was[:60]) for was, said in rows]


def require(refusal: str, words: list[str]) -> None:
    """The refusal has all the words."""
    for word in words:
        assert word in refusal, refusal
