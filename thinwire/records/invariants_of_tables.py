"""How `curve.parquet` and `traffic.parquet` of a record break an invariant, in a clause; None if it holds.

All bytes are means over the workers, but for those whose names have `max`: these are of the worker with the
most. Every worker is in one group of a channel, so what holds for the sum over a group holds for means, too.
"""

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from thinwire.base.learning import NEXT_CHARACTER, TASKS
from thinwire.base.placement import Cluster
from thinwire.config.cell import Cell
from thinwire.optim.schedule import learning_rate
from thinwire.records.record import CURVE, RUN, Record
from thinwire.records.result import BYTES, TRAFFIC_COLUMNS, curve_columns, result_of
from thinwire.records.totals import Columns, at_most, falling, first, same, totals, whole
from thinwire.traffic.ledger import KINDS

# Records of earlier versions lack it.
_NEW = "wire_received_max_bytes"
_SECONDS = ("train_seconds", "eval_seconds", "harness_seconds")
_MEANS = tuple(name for name in BYTES if "_max_" not in name)
_MOST = tuple(name for name in BYTES if "_max_" in name)
_COLUMNS_OF_CURVES = {name: curve_columns(task).names for name, task in TASKS.items()}
_OF_CURVES = {field.name: field.type for task in TASKS.values() for field in curve_columns(task)}
_TYPES = _OF_CURVES | {field.name: field.type for field in TRAFFIC_COLUMNS}
_METRIC = "method/"

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
    """The columns of a curve or of traffic as arrays."""
    return {
        name: column.to_numpy()
        for name, column in zip(table.column_names, table.columns)
        if column.type == _TYPES.get(name) and not column.null_count
    }


def columns_of_curve(run: Record, curve: pa.Table, found: Columns) -> str | None:
    """The columns and types that a run writes."""
    return _wrong_columns(curve, found, _COLUMNS_OF_CURVES[run.task], metrics=True)


def traffic_columns(traffic: pa.Table, found: Columns) -> str | None:
    """The columns and types that a run writes."""
    return _wrong_columns(traffic, found, TRAFFIC_COLUMNS.names, metrics=False)


def _wrong_columns(table: pa.Table, found: Columns, expected: Sequence[str], metrics: bool) -> str | None:
    names = table.column_names
    for name in expected:
        if name not in names:
            if name != _NEW:
                return f"it has no column {name}"
        elif name not in found:
            if table[name].type != _TYPES[name]:
                return f"its column {name} does not hold {_TYPES[name]}"
            if name != _NEW:
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
    if long is not None and (i := first(step != epoch * long)) is not None:
        return f"step {step[i]} is not the end of epoch {epoch[i]} of {long} steps"
    batch = cell.recipe.batch_per_worker(cell.workers) * cell.workers
    if (i := first(samples != step * batch)) is not None:
        inputs = run.learns.inputs
        return f"{samples[i]} {inputs} are not those of {step[i]} steps of {batch} {inputs}"
    return None


def _listed(epochs: list[int]) -> str:
    most = 12
    return ", ".join(map(str, epochs[:most])) + (" and so on" if len(epochs) > most else "")


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
    if (i := first(~((percent >= 0) & (percent <= 100)))) is not None:
        return f"an accuracy of {percent[i]} % is impossible"
    if images is not None and (i := first(~whole(percent * images / 100))) is not None:
        return f"no number of {images} images is {percent[i]} % of them (step {curve['step'][i]})"
    return None


def _bits(curve: Columns) -> str | None:
    """Bits per character are the cross-entropy, which is given in nats."""
    bits, loss = curve[NEXT_CHARACTER.test_column], curve["test_loss"]
    if (
        i := first(~(np.isclose(bits, loss / math.log(2), rtol=1e-9, equal_nan=True) & ~(bits < 0)))
    ) is not None:
        return (
            f"{bits[i]} bits per character do not follow from a loss of {loss[i]} (step {curve['step'][i]})"
        )
    return None


def bytes_of_links(cell: Cell, curve: Columns) -> str | None:
    """Bytes are whole totals, and what one link carries fits what all of them do."""
    if what := totals(curve, BYTES, cell.workers, np.zeros(len(curve["step"]))):
        return what
    step, sent, received = curve["step"], curve["wire_sent_bytes"], curve["wire_received_bytes"]
    for mean, name in zip((sent, received), _MOST):
        largest = curve.get(name, mean)
        if (i := first(~at_most(mean, largest))) is not None:
            return f"the busiest link carried fewer bytes than the mean of the links in step {step[i]}"
        if (i := first(~at_most(largest, mean * cell.workers))) is not None:
            return f"the busiest link carried more bytes than all links together in step {step[i]}"
    if (i := first(~same(sent, received))) is not None:
        return f"the workers sent {sent[i]:g} bytes each and received {received[i]:g} in step {step[i]}"
    between = curve["between_nodes_bytes"]
    if cell.nodes == 1 and (i := first(between > 0)) is not None:
        return f"{between[i]:g} bytes went between nodes in step {step[i]}, and there was one node"
    if (i := first(~at_most(between, sent))) is not None:
        return f"more bytes went between nodes than were sent in step {step[i]}"
    return None


def seconds(curve: Columns) -> str | None:
    """Seconds are totals."""
    return falling(curve, _SECONDS, np.zeros(len(curve["step"])))


def result(run: Record, curve: pa.Table) -> str | None:
    """The result is the last row of the curve."""
    if not len(curve):
        return None
    if run.result is None:
        return f"it has no result, and {CURVE} has {len(curve)} evaluations"
    (row,) = curve.slice(len(curve) - 1).to_pylist()
    # In a row, a metric that was not logged yet is empty. Of the others, only the score counts.
    last = {_NEW: 0.0} | {name: value for name, value in row.items() if value is not None}
    column = run.learns.test_column
    others = curve[column].to_pylist()[:-1]
    made = result_of([*({column: value} for value in others), last], run.learns)
    assert made is not None
    if row.get(_NEW) is None:
        made.traffic.wire_received_max_bytes = run.result.traffic.wire_received_max_bytes
    if made == run.result:
        return None
    given, expected = dict(_leaves(run.result.model_dump())), dict(_leaves(made.model_dump()))
    for name in {**expected, **given}:
        if given.get(name) != expected.get(name):
            return f"its {name} is {given.get(name)}, and the last row of {CURVE} gives {expected.get(name)}"
    return None


def _leaves(tree: dict[str, object], path: str = "") -> Iterator[tuple[str, object]]:
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{path}{name}.")
        else:
            yield path + name, value


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
    if what := totals(traffic, ("messages", *BYTES), cell.workers, group):
        return what
    row = np.searchsorted(curve["step"], step)
    if (i := first(np.append(curve["step"], -1)[row] != step)) is not None:
        return f"it has rows of step {step[i]}, after which {CURVE} has no evaluation"
    if (i := first(traffic["epoch"] != curve["epoch"][row])) is not None:
        return f"step {step[i]} is in another epoch than in {CURVE}"
    total = np.stack([curve[name] for name in _MEANS])
    found = np.stack([np.bincount(row, traffic[name], len(curve["step"])) for name in _MEANS])
    if (bad := ~same(found, total)).any():
        which, i = np.argwhere(bad)[0]
        what = f"{_MEANS[which]} in step {curve['step'][i]} add up to {found[which, i]:g}"
        return f"{what}, and {CURVE} has {total[which, i]:g}"
    for name in _MOST:
        if name not in traffic or name not in curve:
            continue
        busiest, each = curve[name], traffic[name]
        most = np.bincount(row, each, len(busiest))
        if (i := first(~(busiest <= most) | (_largest(row, each, len(busiest)) > busiest))) is not None:
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
            wrong = (pull != 0) | ~same(sent, received) | ~(sent <= push * (1 + 1e-9))
            if (i := first(wrong)) is not None:
                return (
                    f"{where} {traffic['step'][rows][i]}: workers that push {push[i]:g} bytes neither send "
                    f"{sent[i]:g} nor receive {received[i]:g}"
                )
        else:
            follows = np.stack(_FORMULAS[verb](push, pull, members))
            if (bad := ~same(given[: len(follows)], follows)).any():
                which, i = np.argwhere(bad)[0]
                return (
                    f"{where} {traffic['step'][rows][i]}: {_MEANS[which]} is {given[which, i]:g}, and "
                    f"{follows[which, i]:g} follows from the payload for {members} workers"
                )
        if channel == "node" and (i := first(between > 0)) is not None:
            return f"{where} {traffic['step'][rows][i]}: bytes inside the nodes went between nodes"
        if channel == "across" and (i := first(~same(between, sent))) is not None:
            return f"{where} {traffic['step'][rows][i]}: bytes between nodes did not go between nodes"
    return None
