"""The suite `base`, its tuning, and the cells of its trials."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.bad_input.suites import changed
from thinwire import plugins
from thinwire.config import expand, suite, tuned, tuning_space
from thinwire.config.cell import Cell
from thinwire.report import tuning

METHODS = {
    "*": None,
    "hylo": {"options": {"conv_threshold": 64}},
    "hylo_mean": {"use": "hylo", "options": {"kappa": 1.0}, "epochs": 2},
}
LEAVE_OUT = [name for name in plugins.find("method") if name not in ("ssgd", "hylo", "top_k")]
BASE = {
    "methods": METHODS,
    "leave_out": LEAVE_OUT,
    "workers": [2, {"workers": 4, "nodes": 2}],
    "recipe.epochs": 4,
    "recipe.schedule": {"warmup_epochs": 1},
    "repetitions": 3,
    "transport": "processes",
}
TUNING = {
    "title": "a tuning",
    "trials": 4,
    "repetitions": 2,
    "datasets": ["digits"],
    "models": ["cnn"],
    "workers": [2],
    "space": {"lr": [0.01, 1.0], "momentum": [0.8, 0.98], "warmup_epochs": [0, 2]},
}


def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Write the suite `base` and its tuning, and have them found; returns what writes them with changes."""
    for module in (suite, tuning_space, tuned):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    literal = plugins.Plugin.literal
    monkeypatch.setattr(
        plugins.Plugin,
        "literal",
        lambda plugin, name: (
            {"kappa": (0.5, 2.0)} if (plugin.name, name) == ("hylo", "tunes") else literal(plugin, name)
        ),
    )
    (tmp_path / "config" / "tuning").mkdir(parents=True)

    def write(changes: dict[str, Any] | None = None, tuning: dict[str, Any] | None = None) -> None:
        base = changed(copy.deepcopy(BASE) | (changes or {}))
        (tmp_path / "config" / "base.yaml").write_text(yaml.safe_dump(base))
        (tmp_path / "config" / "tuning" / "base.yaml").write_text(yaml.safe_dump(TUNING | (tuning or {})))

    write()
    return write


def tried() -> dict[tuple[str, int], Cell]:
    """The cell of every trial's first run, by method and number."""
    cells = [cell for cell in expand.cells("tuning/base") if cell.repetition == 0]
    return {tuning.of_trial_label(cell.method.label): cell for cell in cells}
