"""Invariants of `run.json` alone."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from thinwire.config.cell import Cell
from thinwire.invariants.broken import Broken, first_broken
from thinwire.record import RUN, Record
from thinwire.train.time_validity import no_time_because
from thinwire.worker_placement import Cluster

# Clocks are read to the second, and a system may set its clock while a run is in progress.
_CLOCK_TOLERANCE_SECONDS = 5.0


def broken_in_run(run: Record, cell: Cell) -> Iterator[Broken]:
    """The first invariant that a `run.json` breaks.

    Args:
        run: its content.
        cell: that it says it is of.
    """
    yield from first_broken(
        RUN,
        (
            ("seed", lambda: _seed(run, cell)),
            ("kind", lambda: _kind(run, cell)),
            ("rules", lambda: _rules(run)),
            ("options", lambda: _options(run, cell)),
            ("planned steps", lambda: _planned_steps(run, cell)),
            ("status", lambda: _status(run)),
            ("preparation", lambda: _preparation(run)),
            ("validity of times", lambda: _time_validity(run, cell)),
            ("start and end", lambda: _start_and_end(run)),
        ),
    )


def _seed(run: Record, cell: Cell) -> str | None:
    seed = run.provenance.get("seed", cell.seed)
    if seed == cell.seed:
        return None
    return (
        f"its seed is {seed}, and {cell.seed} follows from the suite's seed, the data set, the model and the "
        "repetition"
    )


def _kind(run: Record, cell: Cell) -> str | None:
    if run.kind != cell.kind:
        return f"its kind is {run.kind}, and runs with the transport {cell.transport} are {cell.kind}"
    if (run.kind == "emulated") != (cell.cluster is not None):
        return f"its kind is {run.kind}, and its cell describes {'a' if cell.cluster else 'no'} cluster"
    return None


def _rules(run: Record) -> str | None:
    made, told = run.provenance.get("rules"), run.cell.get("rules")
    if made in (None, told):
        return None
    return f"it was made under version {made} of the rules, and its cell says version {told}"


def _options(run: Record, cell: Cell) -> str | None:
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
    return None


def _preparation(run: Record) -> str | None:
    named = "prepared_sha256" in run.provenance
    if named == (run.preparation is not None):
        return None
    return (
        f"it has {'no' if named else 'a'} cost of a preparation, and {'a' if named else 'no'} digest of one"
    )


def _time_validity(run: Record, cell: Cell) -> str | None:
    """Whether the times count follows from what was noted about the ranks or about the emulated links."""
    given = run.no_time_because
    if run.kind == "inprocess":
        return "an in-process run never has times, and needs no reason for it" if given else None
    about = run.provenance.get("emulation" if run.kind == "emulated" else "ranks")
    if not about:
        return None  # it ended before anything was noted
    if run.kind == "emulated":
        valid = _emulation_is_valid(about, cell)
        follows = "reasons" if valid else "no reason"
        return None if valid == (given is None) else f"what was measured of its links gives {follows}"
    expected = no_time_because(about, Cluster(cell.workers, cell.nodes))
    if given == expected:
        return None
    return f"from its ranks follows that its times {_count(expected)}, and it says that they {_count(given)}"


def _count(reason: str | None) -> str:
    return "count" if reason is None else f"do not count because {reason}"


def _emulation_is_valid(about: dict[str, Any], cell: Cell) -> bool:
    """Did the links keep their rate, and did sharing cores lengthen training only a little?"""
    # Only here, because they need torch, whose import takes seconds.
    from thinwire.emulation.calibration import Calibration
    from thinwire.emulation.emulated_run import MOST_CROWDING

    assert cell.cluster is not None
    measured = Calibration.model_validate(about["calibration"])
    on_rate = measured.off_rate(cell.cluster.link.rate_bytes_per_second) is None
    return on_rate and (about["crowding"]["shorter_by_at_most"] or 0.0) <= MOST_CROWDING


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
