"""Invariants of `curve.parquet`, and of the result that is its last row."""

import math
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from thinwire import record
from thinwire.config.cell import Cell
from thinwire.invariants.broken import Broken, falls, first_broken, is_whole
from thinwire.optim.schedule import learning_rate
from thinwire.record import BYTES, CURVE, CURVE_COLUMNS, RUN, Record

_SECONDS = ("train_seconds", "eval_seconds", "harness_seconds")
# Records of earlier versions lack it.
_NEW = "wire_received_max_bytes"


def broken_in_curve(run: Record, cell: Cell, curve: pa.Table) -> Iterator[Broken]:
    """The first invariant that a curve breaks, or the result in `run.json`, which should be its last row."""
    rows: list[dict[str, Any]] = curve.to_pylist()
    found = first_broken(
        CURVE,
        (
            ("columns", lambda: _columns(curve)),
            ("evaluations", lambda: _evaluations(run, cell, rows)),
            ("steps", lambda: _steps(run, rows)),
            ("samples", lambda: _samples(cell, rows)),
            ("learning rate", lambda: _learning_rate(run, cell, rows)),
            ("accuracy", lambda: _accuracy(run, rows)),
            ("bytes never fall", lambda: _never_fall(curve, BYTES)),
            ("seconds never fall", lambda: _never_fall(curve, _SECONDS)),
            ("whole bytes", lambda: _whole_bytes(cell, rows)),
            ("links", lambda: _links(cell, rows)),
        ),
    )
    of_curve = next(found, None)
    if of_curve is not None:
        yield of_curve
    else:
        yield from first_broken(RUN, [("result", lambda: _result(run, rows))])


def _columns(curve: pa.Table) -> str | None:
    for column in CURVE_COLUMNS:
        if column.name not in curve.column_names:
            if column.name != _NEW:
                return f"it has no column {column.name}"
        elif curve.schema.field(column.name).type != column.type:
            return f"its column {column.name} does not hold {column.type}"
    for name in curve.column_names:
        if name not in CURVE_COLUMNS.names and not name.startswith("method/"):
            return f"it has a column {name}, which no run writes"
        if name in CURVE_COLUMNS.names and name != _NEW and curve[name].null_count:
            return f"its column {name} has an empty value"
    return None


def _evaluations(run: Record, cell: Cell, rows: list[dict[str, Any]]) -> str | None:
    """Every so many epochs, and at the end, without a gap; a run that was cut short has fewer."""
    every, last = cell.recipe.evaluate_every_epochs, cell.recipe.epochs
    expected = sorted({*range(every, last + 1, every), last})
    found = [row["epoch"] for row in rows]
    if not rows and run.result is not None:
        return f"it is empty, and {RUN} has a result"
    if found == (expected if run.status == "done" else expected[: len(found)]):
        return None
    return f"it has rows of the epochs {_listed(found)}, and a run of {last} epochs has {_listed(expected)}"


def _listed(epochs: list[int]) -> str:
    most = 12
    return ", ".join(map(str, epochs[:most])) + (" and so on" if len(epochs) > most else "")


def _steps(run: Record, rows: list[dict[str, Any]]) -> str | None:
    for row in rows:
        if run.steps_per_epoch is not None and row["step"] != row["epoch"] * run.steps_per_epoch:
            return f"step {row['step']} is not the end of epoch {row['epoch']} of {run.steps_per_epoch} steps"
    return None


def _samples(cell: Cell, rows: list[dict[str, Any]]) -> str | None:
    batch = cell.recipe.batch_per_worker(cell.workers) * cell.workers
    for row in rows:
        if row["samples"] != row["step"] * batch:
            return f"{row['samples']} images are not those of {row['step']} steps of {batch} images"
    return None


def _learning_rate(run: Record, cell: Cell, rows: list[dict[str, Any]]) -> str | None:
    if run.steps_per_epoch is None:
        return None
    schedule, drops = cell.recipe.schedule, 0
    for row in rows:
        planned = learning_rate(cell.recipe, cell.workers, row["step"] - 1, run.steps_per_epoch)
        if schedule.name == "plateau" and row["lr"] > 0:
            # No record has the losses of all epochs, but the rate falls by whole factors and never rises.
            drops = max(drops, round(math.log(row["lr"] / planned, schedule.factor)))
            planned *= schedule.factor**drops
        if not math.isclose(row["lr"], planned, rel_tol=1e-9, abs_tol=1e-15):
            return (
                f"the learning rate of step {row['step']} is {row['lr']:g}, and the recipe gives {planned:g}"
            )
    return None


def _accuracy(run: Record, rows: list[dict[str, Any]]) -> str | None:
    images = run.evaluated_images
    for row in rows:
        accuracy = row["test_accuracy_percent"]
        if not 0 <= accuracy <= 100:
            return f"an accuracy of {accuracy} % is impossible"
        if images is not None and not is_whole(accuracy * images / 100):
            return f"no number of {images} images is {accuracy} % of them (step {row['step']})"
    return None


def _never_fall(curve: pa.Table, names: tuple[str, ...]) -> str | None:
    for name in names:
        if name == _NEW and (name not in curve.column_names or curve[name].null_count):
            continue
        values = curve[name].to_pylist()
        if (place := next(falls(values), None)) is not None:
            return f"{name} falls to {values[place]} in step {curve['step'][place]}"
    return None


def _whole_bytes(cell: Cell, rows: list[dict[str, Any]]) -> str | None:
    """A mean over the workers, times their number, is a whole number; and so is a maximum."""
    for row in rows:
        for name in BYTES:
            value, workers = row.get(name), 1 if "_max_" in name else cell.workers
            if value is not None and not is_whole(value * workers):
                return f"{name} in step {row['step']} is no mean of whole bytes of {workers} workers"
    return None


def _links(cell: Cell, rows: list[dict[str, Any]]) -> str | None:
    """What one link carries, compared with what all of them do."""
    for row in rows:
        step, sent, received = row["step"], row["wire_sent_bytes"], row["wire_received_bytes"]
        for mean, largest in ((sent, row["wire_sent_max_bytes"]), (received, row.get(_NEW))):
            if largest is not None and not _at_most(mean, largest):
                return f"the busiest link carried fewer bytes than the mean of the links in step {step}"
            if largest is not None and not _at_most(largest, mean * cell.workers):
                return f"the busiest link carried more bytes than all links together in step {step}"
        if not math.isclose(sent, received, rel_tol=1e-9):
            return f"the workers sent {sent:g} bytes each and received {received:g} in step {step}"
        between = row["between_nodes_bytes"]
        if between > 0 and cell.nodes == 1:
            return f"{between:g} bytes went between nodes in step {step}, and there was one node"
        if not _at_most(between, sent):
            return f"more bytes went between nodes than were sent in step {step}"
    return None


def _at_most(value: float, bound: float) -> bool:
    return value <= bound or math.isclose(value, bound, rel_tol=1e-9)


def _result(run: Record, rows: list[dict[str, Any]]) -> str | None:
    """Whether the result is the last row of the curve."""
    if not rows:
        return None
    if run.result is None:
        return f"it has no result, and {CURVE} has {len(rows)} evaluations"
    told = run.result.model_dump()
    # In a row, a metric that was not logged yet is empty.
    filled = [{_NEW: 0.0} | {name: value for name, value in row.items() if value is not None} for row in rows]
    last = record.result(filled)
    assert last is not None
    follows = last.model_dump()
    if rows[-1].get(_NEW) is None:
        follows["traffic"][_NEW] = told["traffic"][_NEW]
    given, expected = dict(_leaves(told)), dict(_leaves(follows))
    for name in {**expected, **given}:
        if given.get(name) != expected.get(name):
            return f"its {name} is {given.get(name)}, and the last row of {CURVE} gives {expected.get(name)}"
    return None


def _leaves(tree: dict[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{path}{name}.")
        else:
            yield path + name, value
