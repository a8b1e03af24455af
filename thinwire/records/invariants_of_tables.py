"""How `curve.parquet` and `traffic.parquet` of a record break an invariant, in a clause; None if it holds.

All bytes are means over the workers, but for those whose names have `max`: these are of the worker with the
most. Every worker is in one group of a channel, so what holds for the sum over a group holds for means, too.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from thinwire.base.learning import NEXT_CHARACTER, TASKS
from thinwire.base.placement import Cluster
from thinwire.config.cell import Cell
from thinwire.optim.recipe import learning_rate
from thinwire.records.record import CURVE, RUN, Record
from thinwire.records.result import BYTES, TRAFFIC_COLUMNS, curve_columns
from thinwire.traffic.wire_bytes import KINDS

_SECONDS = ("train_seconds", "eval_seconds", "harness_seconds")
_MEANS = tuple(name for name in BYTES if "_max_" not in name)
_MOST = tuple(name for name in BYTES if "_max_" in name)
_TYPES = {
    field.name: field.type
    for columns_of in (*map(curve_columns, TASKS.values()), TRAFFIC_COLUMNS)
    for field in columns_of
}
_METRIC = "method/"
Columns = dict[str, np.ndarray]

# What the payload of each verb makes of the bytes on the links, as in `traffic.wire_bytes`. From the push and
# the pull of a verb and the size of the group: the pull, or the push of a verb that only pulls; and the bytes
# that are sent and received. Of a push, the server's own part stays off the wire.
_Four = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
_Expected = Callable[[np.ndarray, np.ndarray, int], _Four]
_FORMULAS: dict[str, _Expected] = {
    "mean": lambda push, pull, n: (push, push, 2 * (n - 1) / n * push, 2 * (n - 1) / n * push),
    "gather": lambda push, pull, n: (push, (n - 1) * push, (n - 1) * push, (n - 1) * push),
    "broadcast": lambda push, pull, n: (push, (n - 1) * push, (n - 1) * push, (n - 1) * push),
    "pull": lambda push, pull, n: (0 * pull, pull, (n - 1) / n * pull, (n - 1) / n * pull),
    "send": lambda push, pull, n: (push, 0 * push, push, 0 * push),
    "receive": lambda push, pull, n: (0 * pull, pull, 0 * pull, pull),
}
_NAMES = {"channel": ("world", "node", "across"), "verb": (*_FORMULAS, "push"), "kind": KINDS}


def columns(table: pa.Table) -> Columns:
    """The columns of a curve or of traffic as arrays, but for unknown ones and those with an empty value."""
    return {
        name: column.to_numpy()
        for name, column in zip(table.column_names, table.columns)
        if column.type == _TYPES.get(name) and not column.null_count
    }


def wrong_columns(table: pa.Table, found: Columns, expected: Sequence[str], metrics: bool) -> str | None:
    """The columns and types that a run writes; the curve also has `metrics` of the method."""
    names = table.column_names
    for name in expected:
        if name not in names:
            return f"it has no column {name}"
        if name not in found:
            if table[name].type != _TYPES[name]:
                return f"its column {name} does not hold {_TYPES[name]}"
            return f"its column {name} has an empty value"
    others = [n for n in names if n not in expected and not (metrics and n.startswith(_METRIC))]
    return f"it has a column {others[0]}, which no run writes" if others else None


def steps(run: Record, cell: Cell, curve: Columns) -> str | None:
    """One evaluation for each epoch that the recipe names, after its steps; a run cut short has fewer."""
    every, last = cell.recipe.evaluate_every_epochs, cell.recipe.epochs
    expected = sorted({*range(every, last + 1, every), last})
    step, epoch, samples = curve["step"], curve["epoch"], curve["samples"]
    found = epoch.tolist()
    if not found and run.result is not None:
        return f"it is empty, and {RUN} has a result"
    if found != (expected if run.status == "done" else expected[: len(found)]):
        each, planned = _listed(found), _listed(expected)
        return f"it has rows of the epochs {each}, and a run of {last} epochs has {planned}"
    long = run.steps_per_epoch
    if long is not None and (i := _first(step != epoch * long)) is not None:
        return f"step {step[i]} is not the end of epoch {epoch[i]} of {long} steps"
    batch = cell.recipe.batch_per_worker(cell.workers) * cell.workers
    if (i := _first(samples != step * batch)) is not None:
        inputs = run.learns.inputs
        return f"{samples[i]} {inputs} are not those of {step[i]} steps of {batch} {inputs}"
    return None


def _listed(epochs: list[int]) -> str:
    return ", ".join(map(str, epochs[:12])) + (" and so on" if len(epochs) > 12 else "")


def rates(run: Record, cell: Cell, curve: Columns) -> str | None:
    """The learning rate is that of the recipe at each step."""
    if run.steps_per_epoch is None:
        return None
    schedule, drops = cell.recipe.schedule, 0
    for step, rate in zip(curve["step"].tolist(), curve["lr"].tolist()):
        planned = learning_rate(cell.recipe, cell.workers, step - 1, run.steps_per_epoch)
        if schedule.name == "plateau" and rate > 0:
            # No record has the losses of all epochs, but the rate falls by whole factors and never rises.
            drops = max(drops, round(math.log(rate / planned, schedule.factor)))
            planned *= schedule.factor**drops
        if not math.isclose(rate, planned, rel_tol=1e-9, abs_tol=1e-15):
            return f"the learning rate of step {step} is {rate:g}, and the recipe gives {planned:g}"
    return None


def score(run: Record, curve: Columns) -> str | None:
    """Each accuracy is that of a whole number of evaluated images; bits follow from the loss."""
    if run.learns is NEXT_CHARACTER:
        return _bits(curve)
    percent, images = curve["test_accuracy_percent"], run.evaluated_images
    if (i := _first(~((percent >= 0) & (percent <= 100)))) is not None:
        return f"an accuracy of {percent[i]} % is impossible"
    if images is not None and (i := _first(~_whole(percent * images / 100))) is not None:
        return f"no number of {images} images is {percent[i]} % of them (step {curve['step'][i]})"
    return None


def _bits(curve: Columns) -> str | None:
    """Bits per character are the cross-entropy, which is given in nats."""
    bits, loss = curve[NEXT_CHARACTER.test_column], curve["test_loss"]
    follow = np.isclose(bits, loss / math.log(2), rtol=1e-9, equal_nan=True) & ~(bits < 0)
    if (i := _first(~follow)) is not None:
        step = curve["step"][i]
        return f"{bits[i]} bits per character do not follow from a loss of {loss[i]} (step {step})"
    return None


def bytes_of_links(cell: Cell, curve: Columns) -> str | None:
    """Bytes are whole totals, and what one link carries fits what all of them do."""
    if what := _totals(curve, BYTES, cell.workers, None):
        return what
    step, sent, received = curve["step"], curve["wire_sent_bytes"], curve["wire_received_bytes"]
    for mean, name in zip((sent, received), _MOST):
        largest = curve[name]
        if (i := _first(~_at_most(mean, largest))) is not None:
            return f"the busiest link carried fewer bytes than the mean of the links in step {step[i]}"
        if (i := _first(~_at_most(largest, mean * cell.workers))) is not None:
            return f"the busiest link carried more bytes than all links together in step {step[i]}"
    if (i := _first(~_same(sent, received))) is not None:
        return f"the workers sent {sent[i]:g} bytes each and received {received[i]:g} in step {step[i]}"
    between = curve["between_nodes_bytes"]
    if cell.nodes == 1 and (i := _first(between > 0)) is not None:
        return f"{between[i]:g} bytes went between nodes in step {step[i]}, and there was one node"
    if (i := _first(~_at_most(between, sent))) is not None:
        return f"more bytes went between nodes than were sent in step {step[i]}"
    return None


def seconds(curve: Columns) -> str | None:
    """Seconds are totals."""
    return _falling(curve, _SECONDS, np.stack([curve[name] for name in _SECONDS]), None)


def ledger(cell: Cell, curve: Columns, traffic: Columns) -> str | None:
    """The rows of `traffic.parquet` name what exists, once; they are totals, and add up to the curve."""
    step = traffic["step"]
    for name, known in _NAMES.items():
        if unknown := set(traffic[name]).difference(known):
            return f"{min(unknown)!r} is no {name}, only {', '.join(known)}"
    places = [*zip(traffic["channel"], traffic["verb"], traffic["kind"])]
    if len({*zip(step.tolist(), places)}) < len(step):
        return "it has two rows of the same step, channel, verb and kind"
    number = {place: index for index, place in enumerate(dict.fromkeys(places))}
    group = np.array([number[place] for place in places], int)
    if what := _totals(traffic, ("messages", *BYTES), cell.workers, group):
        return what
    row = np.searchsorted(curve["step"], step)
    if (i := _first(np.append(curve["step"], -1)[row] != step)) is not None:
        return f"it has rows of step {step[i]}, after which {CURVE} has no evaluation"
    if (i := _first(traffic["epoch"] != curve["epoch"][row])) is not None:
        return f"step {step[i]} is in another epoch than in {CURVE}"
    total = np.stack([curve[name] for name in _MEANS])
    found = np.stack([np.bincount(row, traffic[name], len(curve["step"])) for name in _MEANS])
    if (bad := ~_same(found, total)).any():
        which, i = np.argwhere(bad)[0]
        what = f"{_MEANS[which]} in step {curve['step'][i]} add up to {found[which, i]:g}"
        return f"{what}, and {CURVE} has {total[which, i]:g}"
    for name in _MOST:
        busiest, each = curve[name], traffic[name]
        most = np.bincount(row, each, len(busiest))
        if (i := _first(~(busiest <= most) | (_largest(row, each, len(busiest)) > busiest))) is not None:
            return f"{name} in step {curve['step'][i]} cannot give the {busiest[i]:g} that {CURVE} has"
    return None


def _largest(row: np.ndarray, values: np.ndarray, rows: int) -> np.ndarray:
    """The largest value that belongs to each row."""
    largest = np.zeros(rows)
    np.maximum.at(largest, row, values)
    return largest


def verbs(cell: Cell, traffic: Columns) -> str | None:
    """The bytes on the links follow from the payload, the verb and the size of the channel."""
    groups = Cluster(cell.workers, cell.nodes).groups(0)
    all_bytes = np.stack([traffic[name] for name in _MEANS])
    for verb, channel in dict.fromkeys(zip(traffic["verb"], traffic["channel"])):
        rows = np.flatnonzero((traffic["verb"] == verb) & (traffic["channel"] == channel))
        push, pull, sent, received, between = given = all_bytes[:, rows]
        members = len(groups[channel])
        where = f"{channel} {verb} in step"
        if verb == "push":
            wrong = (pull != 0) | ~_same(sent, received) | ~(sent <= push * (1 + 1e-9))
            if (i := _first(wrong)) is not None:
                return (
                    f"{where} {traffic['step'][rows][i]}: workers that push {push[i]:g} bytes neither send "
                    f"{sent[i]:g} nor receive {received[i]:g}"
                )
        else:
            follows = np.stack(_FORMULAS[verb](push, pull, members))
            if (bad := ~_same(given[: len(follows)], follows)).any():
                which, i = np.argwhere(bad)[0]
                return (
                    f"{where} {traffic['step'][rows][i]}: {_MEANS[which]} is {given[which, i]:g}, and "
                    f"{follows[which, i]:g} follows from the payload for {members} workers"
                )
        if channel == "node" and (i := _first(between > 0)) is not None:
            return f"{where} {traffic['step'][rows][i]}: bytes inside the nodes went between nodes"
        if channel == "across" and (i := _first(~_same(between, sent))) is not None:
            return f"{where} {traffic['step'][rows][i]}: bytes between nodes did not go between nodes"
    return None


def _totals(table: Columns, names: Sequence[str], workers: int, group: np.ndarray | None) -> str | None:
    """Totals never fall; and a mean over the workers, times their number, is whole, as is a maximum."""
    values = np.stack([table[name] for name in names])
    if what := _falling(table, names, values, group):
        return what
    times = np.array([[1 if "_max_" in name else workers] for name in names])
    if (bad := ~_whole(values * times)).any():
        column, i = np.argwhere(bad)[0]
        return f"{names[column]} in step {table['step'][i]} is no mean of whole numbers of {workers} workers"
    return None


def _falling(
    table: Columns, names: Sequence[str], values: np.ndarray, group: np.ndarray | None
) -> str | None:
    """Which value is below the one before it in its group (None: all are one), or below 0, or no number?"""
    step, before = table["step"], np.zeros_like(values)
    if group is None:
        before[:, 1:] = values[:, :-1]
    else:
        order = np.argsort(group, kind="stable")
        step, values = step[order], values[:, order]
        before[:, 1:] = np.where(np.diff(group[order]) == 0, values[:, :-1], 0.0)
    if (bad := ~(values >= before)).any():
        column, i = np.argwhere(bad)[0]
        return f"{names[column]} falls to {values[column, i]:g} in step {step[i]}"
    return None


def _first(bad: np.ndarray) -> int | None:
    """The first row in which something is wrong."""
    return int(bad.argmax()) if bad.any() else None


def _whole(values: np.ndarray) -> np.ndarray:
    """Are these whole numbers, but for the rounding of a division and a product?"""
    return np.abs(values - np.round(values)) <= np.maximum(1e-6, 4 * np.spacing(np.abs(values)))


def _same(ones: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Are these numbers of bytes the same, but for rounding?"""
    return np.abs(ones - others) <= np.maximum(1e-6, 1e-9 * np.maximum(np.abs(ones), np.abs(others)))


def _at_most(values: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Are these numbers of bytes at most as large as others, but for rounding?"""
    return (values <= bounds) | _same(values, bounds)
