"""`thinwire schedule` and `trace`: what the workers of a cell do."""

import shutil
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from pathlib import Path
from signal import Signals

from thinwire.base.errors import UserError
from thinwire.base.files import locked, publish, stamp, writing
from thinwire.base.placement import Cluster
from thinwire.cli.run import chosen_cell
from thinwire.config.cell import Cell
from thinwire.config.expand import cell, require_valid
from thinwire.config.suite import load
from thinwire.launch import local_processes, placement, rank
from thinwire.launch.placement import gpus_claimed, gpus_of
from thinwire.launch.retry import diagnose, require_no_trouble
from thinwire.simulation.describe import describe, kinds_of_steps, ranges
from thinwire.simulation.mirrored import MirroredCell, MirroredRun, Role
from thinwire.simulation.stand_ins import stands_in
from thinwire.trace import perfetto, trace_file
from thinwire.trace.trace_file import SERVER_TRACK, Trace, step_seconds
from thinwire.train.result_files import lock_file, partial_folder, trace_folder, tracing_folder
from thinwire.train.run_cell import Attempt
from thinwire.train.tracing import trace_run, whole_trace


def schedule_main(arguments: Namespace) -> int:
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
        print(f"{wanted.dataset} is not prepared in {results}: random inputs take its place.")
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
    yield "If the method decides by the loss, this schedule assumes the loss of one worker that trains alone."


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


PERFETTO = "trace.perfetto.json"


def trace_main(arguments: Namespace) -> int:
    """Train the first steps of a cell, write what its workers do, and print where the time went."""
    if arguments.steps < 1:
        raise UserError(f"--steps {arguments.steps}: it must be at least 1")
    require_valid(arguments.suite)
    if arguments.cluster is not None:
        arguments.transport = "emulated"
    # A method may change the working directory.
    return trace_cell(chosen_cell(arguments), arguments.results.absolute(), arguments.steps)


def trace_cell(traced: Cell, results: Path, steps: int) -> int:
    """Trace the first steps of a cell; gives the exit code, or a UserError if the run fails."""
    scratch = tracing_folder(results)

    def work(attempt: Attempt) -> int:
        return _trace(traced, results, steps, attempt)

    if traced.transport == "processes":
        started = placement.from_environment()
        if started is not None:
            suite, began = load(traced.suite), time.monotonic()
            return rank.end_process(rank.run(traced, scratch, suite, started, (), began, False, work))
    folder = partial_folder(scratch, traced)
    with locked(lock_file(scratch, traced), f"the trace of {traced.path}"), gpus_claimed(gpus_of(traced)):
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        try:
            return _start(traced, results, work)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def _start(traced: Cell, results: Path, work: Callable[[Attempt], int]) -> int:
    """Start the processes here, and wait; gives the exit code, or a UserError if they have made no trace."""
    made = trace_folder(results, traced) / trace_file.SPANS
    before = stamp(made)
    start = local_processes.starter(traced, load(traced.suite), tracing_folder(results), False, work)
    reports, asked_to_stop, _ = start(lambda: stamp(made) != before)
    if stamp(made) != before:
        return 0
    if asked_to_stop:
        print(f"interrupted by {Signals(asked_to_stop).name}: there is no trace")
        return 128 + asked_to_stop
    require_no_trouble(reports)
    diagnosis = diagnose(reports)
    why = "no process came up, see the output above" if diagnosis is None else diagnosis.reason
    raise UserError(f"{traced.path} was not traced: {why}")


def _trace(traced: Cell, results: Path, steps: int, attempt: Attempt) -> int:
    """Trace the workers of this process; the first process writes the files for all."""
    folder = partial_folder(tracing_folder(results), traced)
    parts, made, target = folder / "parts", folder / "made", trace_folder(results, traced)
    machines = trace_run(traced, results, steps, attempt.transport, parts)
    if attempt.leads:
        trace = whole_trace(traced, parts)
        shutil.rmtree(parts, ignore_errors=True)
        trace_file.write(made, trace)
        perfetto.write(made / PERFETTO, trace)
        publish(made, target)
        _show(traced, trace, machines, target)
    return 0


def _show(traced: Cell, trace: Trace, machines: int, folder: Path) -> None:
    seconds = step_seconds(trace)
    print("seconds a step by activity, mean over the workers, median over the steps")
    for activity, each in seconds.items():
        print(f"  {activity:9}  {each:.6f}")
    print(f"  {'together':9}  {sum(seconds.values()):.6f}")
    for activity, each in step_seconds(trace, SERVER_TRACK).items():
        print(f"  {activity:9}  {each:.6f} in threads of servers, meanwhile")
    if traced.transport == "inprocess":
        print("workers of one process run in turns, so each waits while the others compute")
    if machines > 1:
        print(
            f"the clocks of {machines} machines were compared at barriers: times between them are estimates"
        )
    for path in sorted(folder.iterdir()):
        print(path)
