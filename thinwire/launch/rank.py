"""One rank of a run, from joining the others to the end."""

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from thinwire import record
from thinwire.cluster import Cluster
from thinwire.config.cell import Cell
from thinwire.config.suite import Suite
from thinwire.errors import ResourceError, UserError
from thinwire.files import locked
from thinwire.launch import exit_report
from thinwire.launch.exit_report import RUNNING, ExitReport
from thinwire.launch.flight_recorder import FlightRecorder, in_files, make_files
from thinwire.launch.heartbeat import Heartbeat
from thinwire.launch.placement import require_match, require_places
from thinwire.resources import trouble
from thinwire.train.cell_task import device_of
from thinwire.train.paths import lock_file, partial_folder
from thinwire.train.run_cell import Attempt, Interrupted
from thinwire.transport.connection_errors import ConnectionLost
from thinwire.transport.processes import Processes
from thinwire.transport.rendezvous import Placement, Refused, backend_of, join

# How long the ranks have to find each other.
RENDEZVOUS_SECONDS = 60.0
BAD_INPUT = 2


def run(
    cell: Cell,
    results: Path,
    suite: Suite,
    placement: Placement,
    recorders: Sequence[FlightRecorder],
    began: float,
    hold: bool,
    train: Callable[[Attempt], int],
) -> int:
    """Join the other ranks, train, and give the exit code; a rank that cannot go on does not return.

    Args:
        cell: with as many workers as there are ranks.
        results: a folder that all ranks see.
        suite: of the cell.
        placement: which rank this is.
        recorders: of all ranks; none: they lie in files.
        began: when its process was started, in seconds of the monotonic clock.
        hold: whoever has started the ranks holds the cell's lock, and publishes the record.
        train: runs the attempt and gives the exit code.

    Raises:
        UserError: something can be mended; where it is known to all ranks only the first one raises it.
        Interrupted: in the first rank; all have saved their states.
    """
    cluster = Cluster(cell.workers, cell.nodes)
    require_match(cluster, placement.workers, placement.launcher)
    with ExitStack() as held:
        try:
            heartbeat = _meet(cell, results, suite, placement, recorders, hold, held)
        except Refused:
            if placement.rank == 0:
                raise
            return BAD_INPUT
        attempt = None
        alike = False  # would an error now be raised in all ranks?
        try:
            heartbeat.phase("opens its channels")
            device = device_of(cell, placement.place)
            backend = backend_of(device, cell.backend)
            transport = Processes(cluster, device, backend, heartbeat.doing, heartbeat.called)
            transport.nodes = transport.share([placement.node])
            alike = True
            if placement.launcher != "fork":
                require_places(cluster, transport.nodes)
            heartbeat.phase(RUNNING)
            attempt = Attempt(cell, results, suite.checkpoint_every_seconds, hold, transport)
            attempt.notes.append(f"{cell.workers} ranks are ready after {time.monotonic() - began:.2f} s")
            code = train(attempt)
        except Interrupted as error:
            heartbeat.report(interrupted=error.number)
            _leave(heartbeat, transport.part)
            if placement.rank == 0:
                raise
            return 128 + error.number
        except UserError as error:
            if not (error.known_to_all or (alike and attempt is None)):
                heartbeat.end(trouble=str(error))
            heartbeat.report(trouble=str(error))
            _leave(heartbeat, transport.part)
            if placement.rank == 0:
                raise
            return BAD_INPUT
        except ConnectionLost as error:
            # A failure that the others could not be told; one that all know has its record.
            own = attempt.outcome if attempt is not None and attempt.failed else None
            heartbeat.end(outcome=own, lost=str(error))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            heartbeat.end(trouble=trouble(error))
        _leave(heartbeat, transport.close)
        return code


def _meet(
    cell: Cell,
    results: Path,
    suite: Suite,
    placement: Placement,
    recorders: Sequence[FlightRecorder],
    hold: bool,
    held: ExitStack,
) -> Heartbeat:
    """Join the other ranks and begin its heartbeat; who started them, or rank 0, locks the cell before that.

    Raises:
        Refused: in all ranks, as rank 0 may not begin.
        UserError: this rank cannot find the others.
    """
    partial, refusal = partial_folder(results, cell), None
    folder = partial / record.EXIT_REPORTS
    by_hand = not recorders and not hold
    if placement.rank == 0 and by_hand:
        try:
            held.enter_context(locked(lock_file(results, cell), f"{cell.suite}/{cell.path}"))
            make_files(folder, placement.workers)
        except UserError as error:
            refusal = str(error)
    own = recorders
    try:
        if not by_hand:
            own = recorders or in_files(folder, placement.workers)
            own[placement.rank].phase(placement.node, "joins the others")
        join(placement, min(RENDEZVOUS_SECONDS, suite.hang_seconds), refusal)
        own = own or in_files(folder, placement.workers)
        return Heartbeat(placement, own, partial / record.LOG, suite.hang_seconds)
    except Refused:
        raise
    except UserError as error:
        if own:
            # Unless this machine is short of something, another rank may have been lost.
            field = "trouble" if isinstance(error, ResourceError) else "lost"
            about = ExitReport(rank=placement.rank, host=placement.node)
            exit_report.write(own[placement.rank], about.model_copy(update={field: str(error)}))
        raise


def _leave(heartbeat: Heartbeat, part: Callable[[], None]) -> None:
    """Leave, all ranks together. Of one that is lost from now on nothing is missing."""
    heartbeat.leave()
    with suppress(ConnectionLost):
        part()
    heartbeat.over()
