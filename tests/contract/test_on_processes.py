"""The contract in real processes, one for each worker, on the transport that runs use there.

A method does the same there as in one process, which is compared step by step: weights, losses and ledgers.
So most of what test_contract.py has shown for one process holds here, too, and is not repeated. The checks
that are repeated depend on time and order, or on what is in flight when a run is interrupted.

All checks of a method share one launch. One that fails may leave processes that wait for each other, so they
are killed, and the checks behind it run in others.
"""

import functools
import inspect
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from tests import processes
from tests.contract import test_contract as contract
from tests.contract.conftest import Subject
from thinwire.cluster import Cluster

# By check and, if it has parameters, their value.
REPEATED = (
    "same_bits_every_time",
    "does_not_depend_on_who_has_the_first_turn",
    "goes_on_to_the_same_bits-6",
    "everything_in_flight_lands",
)
# Seconds without a move in which a check is taken not to end: a worker may prepare something meanwhile.
PATIENCE = 300.0

Check = Callable[..., None]


def checks() -> Iterator[tuple[str, Check, dict[str, Any]]]:
    """Every check, once for each of its parameters: its name, the function, and the parameters."""
    for name, check in vars(contract).items():
        if not name.startswith("test_"):
            continue
        short = name.removeprefix("test_")
        marks = [mark for mark in getattr(check, "pytestmark", ()) if mark.name == "parametrize"]
        if not marks:
            yield short, check, {}
        for mark in marks:
            parameter, values = mark.args
            yield from ((f"{short}-{value}", check, {parameter: value}) for value in values)


EVERY = {name: (check, parameters) for name, check, parameters in checks()}
CHECKS = {name: EVERY[name] for name in REPEATED}
# What the order of adding leaves between transports, in double precision: any other difference is larger.
TOLERANCE = 1e-9
subject_of = functools.cache(Subject.of)


def check_here(name: str, method: Path, folder: Path) -> str | None:
    """Run a check in this process, one of several; gives why it was skipped, if it was."""
    check, parameters = CHECKS[name]
    own = folder / name / str(dist.get_rank())
    own.mkdir(parents=True)
    tempfile.tempdir = str(own)
    with pytest.MonkeyPatch.context() as monkeypatch:
        there = {"subject": subject_of(method), "monkeypatch": monkeypatch, "tmp_path": own, **parameters}
        try:
            check(**{wanted: there[wanted] for wanted in inspect.signature(check).parameters})
        except pytest.skip.Exception as skipped:
            return str(skipped)
    return None


def trajectory(subject: Subject, cluster: Cluster) -> list[dict[str, Any]]:
    """After each step: what is shipped, and loss and ledger of each worker of this process."""
    steps = []

    def look(run: Any) -> None:
        run.transport.arrive()
        weights, _ = run.shipped()
        steps.append(
            {
                "shipped": torch.cat([weight.flatten() for weight in weights]).numpy(),
                "losses": [worker.run.loss.item() for worker in run.workers],
                "ledgers": [worker.ledger.state() for worker in run.workers],
            }
        )

    subject.trainer(cluster).train(after_step=look)
    return steps


def trajectory_here(method: Path, folder: Path) -> list[dict[str, Any]]:
    """The trajectory in this process, one of several."""
    subject = subject_of(method)
    return trajectory(subject, subject.clusters()[0])


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Subject], dict[str, Any]]:
    """What became of each check of a method, by rank, and of its trajectory."""

    @functools.cache
    def of(subject: Subject) -> dict[str, Any]:
        workers = subject.clusters()[0].workers
        calls = {name: functools.partial(check_here, name) for name in CHECKS}
        calls["trajectory"] = trajectory_here
        folder = tmp_path_factory.mktemp(subject.name)
        ended = processes.run_all([*calls.values()], workers, subject.path, folder, patience=PATIENCE)
        return dict(zip(calls, ended))

    return of


@pytest.mark.parametrize("check", CHECKS)
def test_keeps_the_contract(subject: Subject, check: str, outcomes: Callable[[Subject], Any]) -> None:
    outcome = outcomes(subject)[check]
    if isinstance(outcome, processes.Failed):
        raise outcome
    if outcome[0] is not None:
        pytest.skip(outcome[0])


def test_runs_as_in_one_process(subject: Subject, outcomes: Callable[[Subject], Any]) -> None:
    """What workers of one process may share besides the channels, workers of several do not."""
    apart = outcomes(subject)["trajectory"]
    if isinstance(apart, processes.Failed):
        raise apart
    workers = subject.clusters()[0].workers
    together = trajectory(subject, next(c for c in reversed(subject.clusters()) if c.workers == workers))
    for rank, own in enumerate(apart):
        for step, (ours, theirs) in enumerate(zip(together, own, strict=True)):
            where = f"rank {rank}, step {step}: workers in one process have another road than the channels"
            assert theirs["shipped"] == pytest.approx(ours["shipped"], rel=TOLERANCE, abs=TOLERANCE), where
            assert theirs["losses"] == [pytest.approx(ours["losses"][rank], rel=TOLERANCE)], where
            assert theirs["ledgers"] == [ours["ledgers"][rank]], where
