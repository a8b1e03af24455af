"""Invariants of `traffic.parquet`, alone and against the curve."""

import math
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from thinwire.config.cell import Cell
from thinwire.invariants.broken import Broken, falls, first_broken, is_whole
from thinwire.invariants.verbs import VERBS, broken_verb
from thinwire.record import BYTES, CURVE, TRAFFIC, TRAFFIC_COLUMNS
from thinwire.traffic.payload_kinds import KINDS
from thinwire.worker_placement import Cluster

_MEANS = tuple(name for name in BYTES if "_max_" not in name)
_MOST = tuple(name for name in BYTES if "_max_" in name)
# Records of earlier versions lack it.
_NEW = "wire_received_max_bytes"


def broken_in_traffic(cell: Cell, curve: pa.Table, traffic: pa.Table) -> Iterator[Broken]:
    """The first invariant that the traffic of a run breaks.

    Args:
        cell: of the run.
        curve: of the run, which is sound.
        traffic: of the run.
    """
    rows: list[dict[str, Any]] = traffic.to_pylist()
    yield from first_broken(
        TRAFFIC,
        (
            ("columns", lambda: _columns(traffic)),
            ("names", lambda: _names(rows)),
            ("whole bytes", lambda: _whole(cell, rows)),
            ("traffic never falls", lambda: _never_falls(rows)),
            ("sums", lambda: _sums(rows, curve)),
            ("verbs", lambda: _verbs(cell, rows)),
        ),
    )


def _columns(traffic: pa.Table) -> str | None:
    expected = {c.name: c.type for c in TRAFFIC_COLUMNS}
    found = {c.name: c.type for c in traffic.schema}
    if {_NEW: expected[_NEW]} | found != expected:
        return "it does not have the columns that a run writes"
    for name in found:
        if name != _NEW and traffic[name].null_count:
            return f"its column {name} has an empty value"
    return None


def _names(rows: list[dict[str, Any]]) -> str | None:
    seen = set()
    for row in rows:
        channel, verb, kind = row["channel"], row["verb"], row["kind"]
        for name, known in ((channel, ("world", "node", "across")), (verb, VERBS), (kind, KINDS)):
            if name not in known:
                return f"there is no {name} among {', '.join(known)}"
        key = (row["step"], channel, verb, kind)
        if key in seen:
            return f"it has two rows of {channel}, {verb} and {kind} in step {row['step']}"
        seen.add(key)
    return None


def _whole(cell: Cell, rows: list[dict[str, Any]]) -> str | None:
    for row in rows:
        for name in ("messages", *BYTES):
            value, workers = row.get(name), 1 if name in _MOST else cell.workers
            if value is not None and not (value >= 0 and is_whole(value * workers)):
                return f"{name} in step {row['step']} is no mean of whole numbers of {workers} workers"
    return None


def _never_falls(rows: list[dict[str, Any]]) -> str | None:
    """No row ends before the last evaluation, and none of its numbers falls."""
    by_key = defaultdict(list)
    for row in rows:
        by_key[row["channel"], row["verb"], row["kind"]].append(row)
    for key, own in by_key.items():
        for name in ("messages", *BYTES):
            values = [row.get(name) for row in own]
            if name == _NEW and None in values:
                continue
            if (place := next(falls(values), None)) is not None:
                return f"{name} of {' '.join(key)} falls to {values[place]:g} in step {own[place]['step']}"
    return None


def _sums(rows: list[dict[str, Any]], curve: pa.Table) -> str | None:
    """Each evaluation has the rows whose sums are its row of the curve."""
    by_step = defaultdict(list)
    for row in rows:
        by_step[row["step"]].append(row)
    for total in curve.to_pylist():
        step = total["step"]
        own = by_step.pop(step, [])
        if any(row["epoch"] != total["epoch"] for row in own):
            return f"step {step} is in another epoch than in {CURVE}"
        for name in _MEANS:
            if not math.isclose(found := sum(row[name] for row in own), total[name], rel_tol=1e-9):
                return f"{name} in step {step} add up to {found:g}, and {CURVE} has {total[name]:g}"
        for name in _MOST:
            each, busiest = [row.get(name) or 0.0 for row in own], total.get(name)
            if busiest is not None and not (max(each, default=0) <= busiest <= sum(each)):
                return f"{name} in step {step} cannot give the {busiest:g} that {CURVE} has"
    if by_step:
        return f"it has rows of step {min(by_step)}, after which {CURVE} has no evaluation"
    return None


def _verbs(cell: Cell, rows: list[dict[str, Any]]) -> str | None:
    cluster = Cluster(cell.workers, cell.nodes)
    for row in rows:
        if what := broken_verb(row, cluster):
            return f"{row['channel']} {row['verb']} {row['kind']} in step {row['step']}: {what}"
    return None
