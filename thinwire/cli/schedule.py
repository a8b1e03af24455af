"""`thinwire schedule SUITE CELL`."""

from argparse import Namespace
from collections.abc import Iterator

from thinwire.config.cell import Cell
from thinwire.config.expand_suite import cell, require_valid
from thinwire.errors import UserError
from thinwire.schedule.describe_steps import describe, ranges
from thinwire.schedule.kinds_of_steps import kinds_of_steps
from thinwire.schedule.mirrored import MirroredCell, MirroredRun
from thinwire.schedule.roles import Role
from thinwire.schedule.stand_in_data import stands_in
from thinwire.worker_placement import Cluster


def main(arguments: Namespace) -> int:
    """Print what the workers of a cell do in their first steps, a section for each role."""
    require_valid(arguments.suite)
    wanted = cell(arguments.suite, arguments.cell)
    if arguments.steps < 1:
        raise UserError(f"--steps {arguments.steps}: it must be at least 1")
    workers = wanted.workers if arguments.workers is None else arguments.workers
    nodes = wanted.nodes if arguments.nodes is None else arguments.nodes
    results = arguments.results.absolute()
    mirrored = MirroredCell(wanted, results, Cluster(workers, nodes))
    found = mirrored.roles(arguments.steps)
    for line in _heading(mirrored, found[0][1]):
        print(line)
    if stands_in(wanted, results):
        print(f"{wanted.dataset} is not prepared in {results}: random images take its place.")
    for role, run in found:
        print()
        for line in _role(role, run, mirrored.cluster):
            print(line)
    return 0


def _heading(mirrored: MirroredCell, run: MirroredRun) -> Iterator[str]:
    wanted: Cell = mirrored.cell
    cluster = mirrored.cluster
    yield f"{wanted.suite} {wanted.path}"
    yield (
        f"{_count(cluster.workers, 'worker')} on {_count(cluster.nodes, 'node')}; "
        f"{run.parameters:,} parameters; the first {len(run.steps)} of {run.total_steps} steps, "
        f"{run.steps_per_epoch} in an epoch"
    )
    if mirrored.repeated > 1:
        yield (
            f"The data set is too small for so many workers: it is taken {mirrored.repeated} times, so that "
            f"an epoch has {_count(run.steps_per_epoch, 'step')}."
        )
    if any(call.ragged for call in run.recorder.calls):
        yield "Sizes of ragged payloads are those of this worker."
    yield "Decisions that follow from the loss are those of a worker that trains alone."


def _role(role: Role, run: MirroredRun, cluster: Cluster) -> Iterator[str]:
    if len(role.workers) == cluster.workers:
        who = "All workers do the same" if cluster.workers > 1 else "The only worker"
    else:
        who = f"{_count(len(role.workers), 'worker')}: {ranges(role.workers)}"
    yield who
    for kind in kinds_of_steps(run.steps):
        yield ""
        yield f"  {_count(len(kind.numbers), 'step')}: {ranges(kind.numbers)}"
        yield from (f"    {line}" for line in describe(kind))


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"
