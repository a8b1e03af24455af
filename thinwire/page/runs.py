"""What the page says about each run: its result, its ledgers, and where it comes from."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from thinwire import record
from thinwire.config.cell import Cell
from thinwire.config.expand_suite import cells
from thinwire.errors import UserError
from thinwire.record import Record
from thinwire.report.result_names import SUMMARY
from thinwire.suggested_command import suggested_command
from thinwire.train.result_folders import record_folder

_KEYS = ["dataset", "model", "method", "workers", "nodes", "repetition"]
_LEDGER = ["channel", "verb", "kind", "messages", *record.BYTES]


class Runs(NamedTuple):
    """The runs of a suite."""

    rows: pd.DataFrame
    """One row for each run, in the order of the suite."""
    ledgers: pd.DataFrame
    """One row for each run (`run`: its row number), channel, verb and kind: what was sent until the end."""
    origins: list[dict[str, Any]]
    """The provenances that runs have, each once; column `origin` of `rows` has their places."""


def read_runs(results: Path, suite: str, collected: pd.DataFrame) -> Runs:
    """Read the records of the runs that were collected.

    Args:
        results: the folder of results.
        suite: the name of the suite.
        collected: its rows of `summary.csv`.

    Raises:
        UserError: a record is missing or was changed since it was written, or a run is not of the suite.
    """
    wanted = set(collected[_KEYS].itertuples(index=False, name=None))
    origins: list[dict[str, Any]] = []
    rows: list[dict[str, Any]] = []
    ledgers = []
    for cell in cells(suite):
        if _key(cell) not in wanted:
            continue
        folder = record_folder(results, cell)
        made = record.read(folder / record.RUN, f"run {suggested_command('collect', suite, results=results)}")
        origin = _origin(made.provenance)
        if origin not in origins:
            origins.append(origin)
        about = {"origin": origins.index(origin), "folder": folder.relative_to(results).as_posix()}
        ledgers.append(_ledger(folder).assign(run=len(rows)))
        rows.append({**dict(zip(_KEYS, _key(cell))), "id": run_id(cell), **_facts(made), **about})
    if len(rows) < len(wanted):
        again = suggested_command("collect", suite, results=results)
        raise UserError(
            f"{results / SUMMARY} has {len(wanted) - len(rows)} runs that config/{suite}.yaml has no more: "
            f"run {again} first"
        )
    return Runs(pd.DataFrame(rows), pd.concat(ledgers, ignore_index=True), origins)


def run_id(cell: Cell) -> str:
    """The anchor of a run on the page. It never changes, so that others can link to it."""
    return f"run-{cell.suite}/{cell.path}"


def _key(cell: Cell) -> tuple[str | int, ...]:
    return cell.dataset, cell.model.label, cell.method.label, cell.workers, cell.nodes, cell.repetition


def _facts(made: Record) -> dict[str, Any]:
    result = made.result
    return {
        "kind": made.kind,
        "status": made.status,
        "reason": made.reason,
        "no_time_because": made.no_time_because,
        "options": _written(made.method_options),
        "steps": result.steps if result else None,
        "accuracy_percent": result.test_accuracy_percent if result else None,
        "interruptions": made.interruptions,
        "seed": str(made.provenance.get("seed", "")),  # it has more digits than numbers of JavaScript
        "fingerprint": made.fingerprint,
    }


def _written(options: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in options.items())


def _ledger(folder: Path) -> pd.DataFrame:
    """The last rows of a run's traffic: what was sent until the end."""
    traffic = pd.read_parquet(folder / record.TRAFFIC)
    last = traffic[traffic.step == traffic.step.max()]
    return last.reindex(columns=_LEDGER)


def _origin(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """The code and the machine of a run, without what only this run has."""
    git, hardware = provenance.get("git") or {}, provenance.get("hardware") or {}
    packages = provenance.get("packages") or {}
    found = {
        "thinwire": provenance.get("thinwire"),
        "version of the rules": provenance.get("rules"),
        "git revision": git.get("revision"),
        "uncommitted changes": git.get("changes_sha256") or "none",
        "Python": provenance.get("python"),
        "PyTorch": provenance.get("torch_build"),
        "NumPy": packages.get("numpy"),
        **{name: hardware.get(name) for name in ("processor", "cores", "threads", "device", "system")},
    }
    return {name: value for name, value in found.items() if value is not None}
