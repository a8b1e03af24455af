"""Rows of simulated times, for tests of tables and figures."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import pandas as pd

from thinwire.report.rows import times
from thinwire.simulation.simulated_file import COLUMNS


def row(method: str, milliseconds: float = 10.0, **more: Any) -> dict[str, Any]:
    """A row in which six tenths of a step are computing, and a tenth each is waiting for something."""
    seconds = milliseconds / 1e3
    made = {
        "suite": "demo",
        "dataset": "digits",
        "model": "cnn",
        "method": method,
        "workers": 8,
        "nodes": 2,
        "kind": "simulated",
        "cluster": "ethernet_1g",
        "rate_gbit_per_second": 1.0,
        "own_rate": True,
        "steps": 100,
        "total_steps": 228,
        "batch_images": 64,
        "step_seconds": seconds,
        "compute_seconds": 0.6 * seconds,
        "others_seconds": 0.1 * seconds,
        "server_seconds": 0.1 * seconds,
        "communication_seconds": 0.2 * seconds,
        "hidden_seconds": 0.05 * seconds,
        "wire_sent_bytes": 1000.0,
        "between_nodes_bytes": 500.0,
        "baseline": "ssgd",
        "speed_up": 1.0,
        "computing": "a core of this machine",
        "revision": "8d86c3e",
    }
    assert list(made) == list(COLUMNS)
    return made | more


def rows(*made: dict[str, Any]) -> pd.DataFrame:
    """The table of these rows."""
    return pd.DataFrame(made, columns=list(COLUMNS))


def never(place: Any, method: str) -> tuple[float, float]:
    """No method reaches the target."""
    return math.nan, math.nan


def table_of_times(
    *made: dict[str, Any],
    runs: Sequence[dict[str, Any]] = (),
    baselines: Sequence[str] = ("ssgd",),
    to_target: Callable[..., tuple[float, float]] = never,
) -> pd.DataFrame:
    """The table of times of simulated rows, if there are any, and of runs."""
    frame = pd.DataFrame(runs) if runs else pd.DataFrame({"status": []})
    return times.times(rows(*made) if made else None, frame, list(baselines), to_target)
