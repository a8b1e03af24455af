"""Trains the first steps of a cell and writes what its workers do; there is no record and no checkpoint."""

from pathlib import Path

from thinwire.blame import blame
from thinwire.config.cell import Cell
from thinwire.errors import UserError
from thinwire.trace import trace_file
from thinwire.trace.common_clock import common_zero_ns
from thinwire.trace.trace_file import Trace
from thinwire.train.record_spans import record_spans
from thinwire.train.run_setup import RunSetup
from thinwire.train.shared_errors import all_or_none
from thinwire.transport.rendezvous import ConnectionLost
from thinwire.transport.transport import Transport


def trace_run(cell: Cell, results: Path, steps: int, transport: Transport, parts: Path) -> int:
    """Train, and write what the workers of this process do; all processes of a run do this together.

    Args:
        cell: what is trained.
        results: the folder that has the data, and what the method has prepared.
        steps: to train, or fewer if the run is shorter.
        transport: between the workers.
        parts: a folder that all processes see; each writes its part, see `whole_trace`.

    Returns:
        The number of machines. If there are several, the moment that their clocks have in common is an
        estimate; see `thinwire.trace.common_clock`.

    Raises:
        UserError: something is missing, or the method fails.
        ConnectionLost: another process has ended.
    """
    try:
        return _trace(cell, results, steps, transport, parts)
    except (UserError, ConnectionLost, KeyboardInterrupt):
        raise
    except BaseException as error:
        if (reason := blame(error)) is None:
            raise
        raise UserError(f"{cell.path} cannot be traced, because it fails: {reason}") from error


def whole_trace(cell: Cell, parts: Path) -> Trace:
    """The trace of all workers, from the parts that their processes have written.

    Raises:
        UserError: a part is damaged.
    """
    processes = 1 if cell.transport == "inprocess" else cell.workers
    return trace_file.merged([trace_file.read(_part(parts, rank)) for rank in range(processes)])


def _trace(cell: Cell, results: Path, steps: int, transport: Transport, parts: Path) -> int:
    with all_or_none(transport):
        trainer, prepared = RunSetup(cell, results, transport).load()
        if reason := trainer.skip():
            raise UserError(f"{cell.path} cannot be traced, because it is skipped: {reason}")
    trainer.setup(prepared)
    zero_ns, machines = common_zero_ns(lambda value: transport.share([value for _ in transport.ranks]))
    recorders = record_spans(trainer)
    trainer.train(until=steps)
    # Calls may be in flight to later steps.
    transport.arrive()
    for recorder in recorders:
        recorder.cut("")
    with all_or_none(transport):
        trace_file.write(_part(parts, transport.ranks[0]), trace_file.of_recorders(recorders, zero_ns))
    return machines


def _part(parts: Path, rank: int) -> Path:
    return parts / str(rank)
