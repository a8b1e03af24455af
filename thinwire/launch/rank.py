"""One rank of a run, from joining the others to the end."""

import shutil
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from thinwire import record
from thinwire.cluster import Cluster
from thinwire.config.cell import Cell
from thinwire.config.suite import Suite
from thinwire.errors import UserError
from thinwire.files import locked, writing
from thinwire.launch.placement import require_match, require_places
from thinwire.launch.watch import Watch
from thinwire.train.places import lock_file, partial_folder
from thinwire.train.run_cell import Attempt, Interrupted
from thinwire.train.task import device_of
from thinwire.transport.contact import LostContact
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
        began: when its process was started, in seconds of the monotonic clock.
        hold: leave the finished record aside.
        train: runs the attempt and gives the exit code.

    Raises:
        UserError: something can be mended; where it is known to all ranks only the first one raises it.
        Interrupted: in the first rank; all have saved their states.
    """
    require_match(Cluster(cell.workers, cell.nodes), placement.workers, placement.launcher)
    with ExitStack() as held:
        refusal = None
        if placement.rank == 0:
            try:
                held.enter_context(locked(lock_file(results, cell), f"{cell.suite}/{cell.path}"))
                _make_room_for_words(partial_folder(results, cell) / record.LAST_WORDS)
            except UserError as error:
                refusal = str(error)
        try:
            join(placement, min(RENDEZVOUS_SECONDS, suite.hang_seconds), refusal)
        except Refused:
            if placement.rank == 0:
                raise
            return BAD_INPUT
        return _run(cell, results, suite, placement, began, hold, train)


def _make_room_for_words(words: Path) -> None:
    with writing(words):
        shutil.rmtree(words, ignore_errors=True)
        words.mkdir(parents=True)


def _run(
    cell: Cell,
    results: Path,
    suite: Suite,
    placement: Placement,
    began: float,
    hold: bool,
    train: Callable[[Attempt], int],
) -> int:
    """From the meeting of the ranks to the end."""
    cluster, partial = Cluster(cell.workers, cell.nodes), partial_folder(results, cell)
    words = partial / record.LAST_WORDS
    watch = Watch(placement, words, partial / record.LOG, suite.hang_seconds)
    attempt = None
    alike = False  # would an error now be raised in all ranks?
    try:
        device = device_of(cell, placement.place)
        transport = Processes(cluster, device, backend_of(device, cell.backend), watch.doing)
        watch.calls = transport.calls
        transport.nodes = transport.share([placement.node])
        alike = True
        if placement.launcher != "fork":
            require_places(cluster, transport.nodes)
        attempt = Attempt(cell, results, suite.checkpoint_every_seconds, hold, transport)
        attempt.notes.append(f"{cell.workers} ranks are ready after {time.monotonic() - began:.2f} s")
        code = train(attempt)
    except Interrupted as error:
        _leave(watch, transport)
        if placement.rank == 0:
            raise
        return 128 + error.number
    except UserError as error:
        if not (alike if attempt is None else attempt.known_to_all):
            watch.end(trouble=str(error))
        _leave(watch, transport)
        if placement.rank == 0:
            raise
        return BAD_INPUT
    except LostContact as error:
        watch.end(outcome=attempt.outcome if attempt else None, lost=str(error))
    except BaseException as error:
        traceback.print_exc(file=sys.stderr)
        watch.end(outcome=("failed", f"{type(error).__name__}: {error}"))
    _leave(watch, transport)
    transport.close()
    return code


def _leave(watch: Watch, transport: Processes) -> None:
    """Stop watching, all ranks together: who still watches would take it amiss that rank 0 is gone."""
    watch.over()
    transport.part()
