"""What holds in the record of every run, whatever its method does; docs/provenance.md lists these invariants.

They find a change even if all digests were made anew, and mistakes of the engine: a record that breaks one is
not published.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from thinwire.base.digests import Damaged
from thinwire.base.placement import Cluster
from thinwire.config.cell import Cell
from thinwire.records import invariants_of_tables as of_tables
from thinwire.records.provenance import no_time_because
from thinwire.records.record import CURVE, RUN, TRAFFIC, Record, read_tables
from thinwire.records.result import TRAFFIC_COLUMNS, curve_columns, result_of

# Clocks are read to the second, and a system may set its clock while a run is in progress.
_CLOCK_TOLERANCE_SECONDS = 5.0
# What reading a record may raise that somebody has forged.
NOT_WRITTEN = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError),
    *(RecursionError, TypeError, ValueError),
)
# The name of an invariant, and what says how it is broken, in a clause; None if it holds.
_Check = tuple[str, Callable[[], str | None]]


class Broken(NamedTuple):
    """An invariant and how a file breaks it; `what` is a clause."""

    invariant: str  # its name in docs/provenance.md
    file: str
    what: str

    def __str__(self) -> str:
        return f"{self.what} (invariant: {self.invariant})"


def require_invariants(folder: Path, run: Record, cell: Cell) -> tuple[pa.Table, pa.Table]:
    """Check the record of a cell in a folder, whose digests are right, and return its curve and its traffic.

    Raises:
        Damaged: it breaks an invariant; the message names the record and the invariant.
    """
    curve, traffic = read_tables(folder)
    for each in broken(run, cell, curve, traffic):
        raise Damaged(f"{folder / each.file} does not hold what its run gave: {each}")
    return curve, traffic


def broken(run: Record, cell: Cell, curve: pa.Table, traffic: pa.Table) -> Iterator[Broken]:
    """The invariants that a record breaks: at most one of `run.json` and one of the tables beside it."""
    yield from broken_in_run(run, cell)
    evaluations, rows = of_tables.columns(curve), of_tables.columns(traffic)
    of_curve_names, of_traffic_names = curve_columns(run.learns).names, TRAFFIC_COLUMNS.names
    of_curve: tuple[_Check, ...] = (
        ("columns", lambda: of_tables.wrong_columns(curve, evaluations, of_curve_names, metrics=True)),
        ("steps", lambda: of_tables.steps(run, cell, evaluations)),
        ("learning rate", lambda: of_tables.rates(run, cell, evaluations)),
        ("score", lambda: of_tables.score(run, evaluations)),
        ("bytes", lambda: of_tables.bytes_of_links(cell, evaluations)),
        ("times", lambda: of_tables.seconds(evaluations)),
    )
    of_traffic: tuple[_Check, ...] = (
        ("columns", lambda: of_tables.wrong_columns(traffic, rows, of_traffic_names, metrics=False)),
        ("ledger", lambda: of_tables.ledger(cell, evaluations, rows)),
        ("verbs", lambda: of_tables.verbs(cell, rows)),
    )
    # Each part is compared with the one before it.
    yield from (
        _first_broken(CURVE, of_curve)
        or _first_broken(RUN, [("result", lambda: _result(run, curve))])
        or _first_broken(TRAFFIC, of_traffic)
    )


def broken_in_run(run: Record, cell: Cell) -> Iterator[Broken]:
    """The first invariant that a `run.json` breaks; it says that it is of this cell."""
    checks: tuple[_Check, ...] = (
        ("seed", lambda: _seed(run, cell)),
        ("cell", lambda: _cell(run, cell)),
        ("steps", lambda: _planned_steps(run, cell)),
        ("status", lambda: _status(run)),
        ("times", lambda: _whether_times_count(run, cell) or _start_and_end(run)),
    )
    yield from _first_broken(RUN, checks)


class Pairs:
    """Compares records with the first one of their pair; both differ only in method or number of workers."""

    def __init__(self) -> None:
        self._first: dict[tuple[object, ...], tuple[object, Path]] = {}

    def broken(self, folder: Path, run: Record, cell: Cell) -> Iterator[Broken]:
        """In what a record differs from the first one of its pair."""
        pair = (cell.suite, cell.dataset, cell.model.label, cell.repetition, cell.device)
        facts = {
            "initial weights": run.provenance.get("initial_weights_sha256"),
            "files of data": run.provenance.get("data_sha256"),
            "numbers of classes": run.classes,
            "tasks": run.task,
            "numbers of evaluated images": run.evaluated_images,
            "numbers of evaluated characters": run.evaluated_characters,
            "numbers of parameters": run.parameters,
        }
        if run.partition is not None:
            facts[f"partitions among {cell.workers} workers"] = run.partition
        for fact, value in facts.items():
            if value is None:
                continue
            first, where = self._first.setdefault((*pair, fact), (value, folder))
            if first != value:
                yield Broken("pairs", RUN, f"its {fact} differ from those of its pair {where}")


def not_written(error: Exception) -> str:
    """What one of `NOT_WRITTEN` says about a file, in a clause."""
    return f"it holds what no run writes ({type(error).__name__}: {' '.join(str(error).split())})"


def _first_broken(file: str, checks: Iterable[_Check]) -> list[Broken]:
    """The first of these invariants that a file breaks; what follows may be broken only because of it."""
    with np.errstate(all="ignore"):  # a comparison with what is no number does not hold
        for invariant, find in checks:
            try:
                what = find()
            except NOT_WRITTEN as error:
                what = not_written(error)
            if what:
                return [Broken(invariant, file, what)]
    return []


def _seed(run: Record, cell: Cell) -> str | None:
    seed = run.provenance.get("seed", cell.seed)
    if seed == cell.seed:
        return None
    return (
        f"its seed is {seed}, and {cell.seed} follows from the suite's seed, the data set, the model and the "
        "repetition"
    )


def _cell(run: Record, cell: Cell) -> str | None:
    """Whether the run was made as its cell says."""
    if run.kind != cell.kind:
        return f"its kind is {run.kind}, and runs with the transport {cell.transport} are {cell.kind}"
    if (run.kind == "emulated") != (cell.cluster is not None):
        return f"its kind is {run.kind}, and its cell describes {'a' if cell.cluster else 'no'} cluster"
    made, told = run.provenance.get("rules"), run.cell.get("rules")
    if made not in (None, told):
        return f"it was made under version {made} of the rules, and its cell says version {told}"
    if run.total_steps is not None and (run.partition is None) != (cell.recipe.partition == "iid"):
        has = "no" if run.partition is None else "a"
        return f"it has {has} partition, and its cell says {cell.recipe.partition}"
    for module, all_options in ((cell.method, run.method_options), (cell.model, run.model_options)):
        for name, given in module.options.items():
            if all_options and all_options.get(name) != given:
                return f"{module.use} ran with {name} {all_options.get(name)}, and its cell says {given}"
    return None


def _planned_steps(run: Record, cell: Cell) -> str | None:
    if run.total_steps is None or run.steps_per_epoch is None:
        return None
    if run.total_steps == run.steps_per_epoch * cell.recipe.epochs:
        return None
    return f"{run.total_steps} steps are not {cell.recipe.epochs} epochs of {run.steps_per_epoch} steps"


def _status(run: Record) -> str | None:
    if run.status == "skipped" and run.result is not None:
        return "a run that was skipped has a result"
    if run.status == "done" and run.reason is not None:
        return "a run that is done gives a reason why it is not"
    if run.status == "done" and run.result is not None and run.result.steps != run.total_steps:
        return f"a run that is done ended after {run.result.steps} of {run.total_steps} steps"
    named = "prepared_sha256" in run.provenance
    if named != (run.preparation is not None):
        one, other = ("no", "a") if named else ("a", "no")
        return f"it has {one} cost of a preparation, and {other} digest of one"
    return None


def _whether_times_count(run: Record, cell: Cell) -> str | None:
    """Whether it follows from what was noted about the ranks or about the emulated links."""
    given = run.no_time_because
    if run.kind == "inprocess":
        return "an in-process run never has times, and needs no reason for it" if given else None
    about = run.provenance.get("emulation" if run.kind == "emulated" else "ranks")
    if not about:
        return None  # it ended before anything was noted
    if run.kind == "emulated":
        valid = not run.interruptions and _emulation_is_valid(run, cell)
        follows = "reasons" if valid else "no reason"
        return None if valid == (given is None) else f"what was measured of its links gives {follows}"
    expected = no_time_because(about, Cluster(cell.workers, cell.nodes), run.interruptions)
    if given == expected:
        return None
    return f"from its ranks follows that its times {_count(expected)}, and it says that they {_count(given)}"


def _count(reason: str | None) -> str:
    return "count" if reason is None else f"do not count because {reason}"


def _emulation_is_valid(run: Record, cell: Cell) -> bool:
    """Did the links keep their rate and latency, and did sharing cores lengthen training only a little?"""
    # Only here, because they need torch, whose import takes seconds.
    from thinwire.emulation.emulated_run import MOST_CROWDING, Calibration

    assert cell.cluster is not None
    about = run.provenance["emulation"]
    measured = Calibration.model_validate(about["calibration"])
    as_configured = measured.off(cell.cluster.link) is None
    return as_configured and (about["crowding"]["shorter_by_at_most"] or 0.0) <= MOST_CROWDING


def _start_and_end(run: Record) -> str | None:
    started, ended = (run.provenance.get(name) for name in ("started", "ended"))
    if started is None or ended is None:
        return None
    passed = (datetime.fromisoformat(ended) - datetime.fromisoformat(started)).total_seconds()
    if passed < -_CLOCK_TOLERANCE_SECONDS:
        return f"it ended at {ended}, before it started at {started}"
    trained = 0.0 if run.result is None else run.result.seconds.train
    # After an interruption, `started` is when the last attempt began.
    if run.interruptions or trained <= passed + _CLOCK_TOLERANCE_SECONDS:
        return None
    return f"it trained for {trained:.1f} s, and {passed:.0f} s passed between its start and its end"


def _result(run: Record, curve: pa.Table) -> str | None:
    """The result is the last row of the curve."""
    if not len(curve):
        return None
    if run.result is None:
        return f"it has no result, and {CURVE} has {len(curve)} evaluations"
    # In a row, a metric that was not logged yet is empty. Of the others, only the score counts.
    row = {name: column[-1].as_py() for name, column in zip(curve.column_names, curve.columns)}
    last = {name: value for name, value in row.items() if value is not None}
    column = run.learns.test_column
    others = curve[column].to_pylist()[:-1]
    made = result_of([*({column: value} for value in others), last], run.learns)
    assert made is not None
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
