"""The contract in real processes, one for each worker, on the transport that runs use there.

A method does the same there as in one process, which is compared step by step: weights, losses and ledgers.
So most of what was shown for one process holds here, too, and is not repeated. The checks
that are repeated depend on time and order, or on what is in flight when a run is interrupted. All of this is
done once more on the path of calls that GPUs take, with gloo.

All checks of a method share one launch. A check that fails may leave processes that wait for each other. So
they are killed, and the next checks run in new processes.
"""

import functools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from tests import processes
from tests.contract import test_channels, test_contract, test_gpus
from tests.contract.conftest import Subject, perform
from thinwire.base.placement import Cluster

EVERY_CHECK = {
    name: check
    for module in (test_channels, test_contract, test_gpus)
    for name, check in vars(module).items()
    if name.startswith("test_")
}
# By check and, if it has parameters, their value.
REPEATED = (
    "same_bits_every_time",
    "does_not_depend_on_the_order_of_the_workers",
    "resumes_to_the_same_bits-6",
    "every_message_in_flight_is_received",
)
# With servers, and with messages in flight; golden/test_two_transports.py has more.
QUICK_METHODS = ("ps_sgd", "daso")
# Seconds without a move in which a check is taken not to end: a worker may prepare something meanwhile.
PATIENCE = 300.0

Check = Callable[..., Any]
# By check or trajectory, and by path of calls.
Outcomes = dict[tuple[str, str], Any]
CPUS, LIKE_GPUS = "on_cpus", "like_gpus"


def checks() -> Iterator[tuple[str, Check, dict[str, Any]]]:
    """Every check, once for each of its parameters: its name, the function, and the parameters."""
    for name, check in EVERY_CHECK.items():
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
# In larger blocks values lie exactly between two levels, so that the order of adding decides.
NO_TIES = {"quantised_all_reduce": {"block": 2}}
subject_of = functools.cache(Subject.of)


def check_here(name: str, method: Path, folder: Path) -> str | None:
    """Run a check in this process, one of several. Returns why it was skipped, if it was."""
    check, parameters = CHECKS[name]
    own = Path(tempfile.mkdtemp(prefix=f"{name}-{dist.get_rank()}-", dir=folder))
    tempfile.tempdir = str(own)
    with pytest.MonkeyPatch.context() as monkeypatch:
        try:
            perform(check, subject_of(method), monkeypatch, own, **parameters)
        except pytest.skip.Exception as skipped:
            return str(skipped)
    return None


def trajectory(subject: Subject, cluster: Cluster) -> list[dict[str, Any]]:
    """After each step: the shipped weights, and loss and ledger of each worker of this process."""
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

    options = subject.method.short | NO_TIES.get(subject.name, {})
    subject.trainer(cluster, options).train(after_step=look)
    return steps


def trajectory_here(method: Path, folder: Path) -> list[dict[str, Any]]:
    """The trajectory in this process, one of several."""
    subject = subject_of(method)
    return trajectory(subject, subject.clusters()[0])


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Subject], Outcomes]:
    """The outcome of each check of a method, by rank, and its trajectory; of both paths of calls."""

    @functools.cache
    def of(subject: Subject) -> Outcomes:
        workers = subject.clusters()[0].workers
        calls: dict[str, Check] = {name: functools.partial(check_here, name) for name in CHECKS}
        calls["trajectory"] = trajectory_here
        like_gpus = [functools.partial(processes.on_device_group, call) for call in calls.values()]
        folder = tmp_path_factory.mktemp(subject.name)
        functions = [*calls.values(), *like_gpus]
        ended = processes.run_all(functions, workers, subject.path, folder, patience=PATIENCE)
        places = [(name, way) for way in (CPUS, LIKE_GPUS) for name in calls]
        return dict(zip(places, ended, strict=True))

    return of


@pytest.mark.parametrize("way", [CPUS, LIKE_GPUS])
@pytest.mark.parametrize("check", CHECKS)
def test_keeps_the_contract(
    subject: Subject, check: str, way: str, outcomes: Callable[[Subject], Outcomes]
) -> None:
    outcome = outcomes(subject)[check, way]
    if isinstance(outcome, processes.Failed):
        raise outcome
    if outcome[0] is not None:
        pytest.skip(outcome[0])


@pytest.mark.parametrize("way", [CPUS, LIKE_GPUS])
def test_runs_as_in_one_process(subject: Subject, way: str, outcomes: Callable[[Subject], Outcomes]) -> None:
    """Workers of one process might share more than the channels; workers of several processes cannot."""
    apart = outcomes(subject)["trajectory", way]
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
