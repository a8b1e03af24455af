"""Invented frames for the figures: curves, traffic, comparisons and bytes to a target."""

import math
from typing import Any

import pandas as pd

CELL = {"dataset": "digits", "model": "cnn", "workers": 4, "nodes": 1, "kind": "inprocess"}
BASELINES = ["ssgd", "ssgd_bf16"]
METHODS = [*BASELINES, *(f"method_{i}" for i in range(10))]


def evaluation(
    method: str, seed: int, epoch: int, accuracy: float, payload: float, **more: Any
) -> dict[str, Any]:
    """One evaluation of a run, which has pushed and pulled as many bytes."""
    run = {"method": method, "repetition": seed, "status": "done", "evaluated_on": "test"}
    values = {"epoch": epoch, "score": accuracy}
    sent = {"payload_push_bytes": payload, "payload_pull_bytes": payload, "preparation_payload_bytes": 0.0}
    return {**CELL, **run, **values, **sent, **more}


def curves(methods: Any = ("ssgd", "thin"), seeds: int = 3, **more: Any) -> pd.DataFrame:
    """Curves of three epochs; each method sends less than the one before, and is as accurate or less so."""
    return pd.DataFrame(
        [
            evaluation(
                method, seed, epoch, 50 + 10 * epoch + seed - place / 8, 1e7 * epoch / 10**place, **more
            )
            for place, method in enumerate(methods)
            for seed in range(seeds)
            for epoch in (1, 2, 3)
        ]
    )


def traffic(methods: Any = ("ssgd", "thin"), **more: Any) -> pd.DataFrame:
    """Each of two runs of a method pushes values and indices, and pulls values."""
    parts = (("values", 4e6, 6e6), ("indices", 2e6, 0.0))
    names = ("payload_kind", "payload_push_bytes", "payload_pull_bytes")
    return pd.DataFrame(
        [
            {**CELL, "method": method, "repetition": seed, "status": "done", **dict(zip(names, part)), **more}
            for method in methods
            for seed in range(2)
            for part in parts
        ]
    )


def comparison(method: str, mean: float, half: float, verdict: str, **more: Any) -> dict[str, Any]:
    """A paired difference with its interval."""
    difference = {
        "gain_mean": mean,
        "gain_low": mean - half,
        "gain_high": mean + half,
    }
    about = {"against": "ssgd", "n": 10, "margin": 0.3, "verdict": verdict, "words": "words"}
    return {**CELL, "method": method, **about, **difference, **more}


def comparisons() -> pd.DataFrame:
    """One comparison of each verdict."""
    return pd.DataFrame(
        [
            comparison("less", -1.0, 0.5, "different"),
            comparison("alike", 0.1, 0.15, "no_effect"),
            comparison("unclear", 0.4, 0.9, "inconclusive"),
        ]
    )


def to_target(needed: dict[str, list[float]], **more: Any) -> pd.DataFrame:
    """The megabytes that each method needs in each cell."""
    rows = [
        {**CELL, "workers": 2**cell, "method": method, "payload_bytes_median": 1e6 * megabytes}
        for method, of_cells in needed.items()
        for cell, megabytes in enumerate(of_cells, 1)
    ]
    return pd.DataFrame(rows).assign(target_score=97.0, **more)


MISS = math.inf


def summary() -> pd.DataFrame:
    """The comparisons beside the bytes that each method saves between nodes, and the baseline's own row."""
    baseline = {**CELL, "method": "ssgd", "gain_mean": math.nan, "gain_low": math.nan, "gain_high": math.nan}
    rows = pd.concat([pd.DataFrame([baseline]), comparisons()], ignore_index=True)
    return rows.assign(
        nodes=2,
        total_reduction_percent=[0.0, 40.0, 40.0, 40.0],
        between_nodes_reduction_percent=[0.0, 90.0, 50.0, -100.0],
    )
