"""The line of each run on the page; scripts fill it with the rest when it is opened."""

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from thinwire.page.suite_data import SuiteData


def run_lines(suites: Sequence[SuiteData]) -> Iterator[dict[str, Any]]:
    """The anchor, the name and the outcome of every run, with the places of its suite and of its row."""
    for place, suite in enumerate(suites):
        for number, run in enumerate(suite.runs.to_dict("records")):
            yield {
                "id": run["id"],
                "suite": place,
                "number": number,
                "name": run["id"].removeprefix(f"run-{suite.name}/"),
                "outcome": _outcome(run),
            }


def _outcome(run: dict[Any, Any]) -> str:
    if pd.isna(run["accuracy_percent"]):
        return str(run["status"])
    ended = "" if run["status"] == "done" else f", {run['status']}"
    return f"{run['accuracy_percent']:.2f} %{ended}"
