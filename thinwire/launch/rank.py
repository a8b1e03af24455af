"""Runs one rank, from joining the others to its end."""

import os
import resource
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Never

import torch

from thinwire.base.errors import ResourceError, UserError, shortage, trouble
from thinwire.base.files import locked, writing
from thinwire.base.placement import Cluster, Placement, SharedFile
from thinwire.config.cell import Cell
from thinwire.config.suite_schema import Suite
from thinwire.emulation.emulated_run import EmulatedRun
from thinwire.launch.heartbeat import RENDEZVOUS_SECONDS, Heartbeat
from thinwire.launch.placement import require_places
from thinwire.launch.run_processes import RUNNING, How, RankStatus, in_files, in_memory
from thinwire.records import record
from thinwire.train.cell_task import device_of
from thinwire.train.result_files import lock_file, partial_folder
from thinwire.train.run_cell import Attempt, Interrupted
from thinwire.transport.device import GLOO, backend_of, choose_nccl_settings, make_current
from thinwire.transport.processes import Processes
from thinwire.transport.rendezvous import ConnectionLost, Refused, join

BAD_INPUT = 2


def run(
    cell: Cell,
    results: Path,
    suite: Suite,
    placement: Placement,
    statuses: Sequence[RankStatus],
    began: float,
    hold: bool,
    train: Callable[[Attempt], int],
) -> int:
    """Join the other ranks, train, and give the exit code.

    A rank that cannot go on ends its process and does not return.

    Args:
        cell: with as many workers as there are ranks.
        results: a folder that all ranks see.
        suite: of the cell.
        placement: of this rank.
        statuses: of all ranks; empty if this process does not share memory with the others.
        began: when the launch began, in seconds of the monotonic clock.
        hold: the caller that started the ranks holds the lock of the cell, and publishes the record.
        train: runs the attempt, and gives the exit code.

    Raises:
        UserError: a problem must be fixed; if all ranks know of it, only the first one raises it.
        Interrupted: in the first rank, after a signal asked for a stop; all ranks have saved their states.
    """
    cluster = Cluster(cell.workers, cell.nodes)
    with ExitStack() as held:
        try:
            heartbeat, device = _join(cell, results, suite, placement, statuses, hold, held)
        except Refused:
            if placement.rank == 0:
                raise
            return BAD_INPUT
        attempt = None
        common = False  # would all ranks raise the same error now?
        try:
            heartbeat.phase("opens its channels")
            backend = backend_of(device, cell.backend)
            meeting = placement.meeting
            if backend != GLOO:
                choose_nccl_settings(meeting, cell.nccl)
            transport = Processes(
                cluster,
                device,
                backend,
                heartbeat.doing,
                cell.kind,
                status_interface=meeting.status_interface if isinstance(meeting, SharedFile) else None,
            )
            transport.nodes = transport.share([placement.node])
            common = True
            if placement.launcher != "fork":
                require_places(cluster, transport.nodes)
            if backend != GLOO:
                # Its number does not tell a GPU: Slurm may show each rank only its own, as number 0.
                gpu = str(torch.cuda.get_device_properties(device).uuid)
                require_gpus_of_their_own(transport.share([gpu]), transport.nodes)
                transport.open_communicators()
            emulated = None
            if cell.cluster is not None:
                heartbeat.phase("measures the emulated links")
                emulated = EmulatedRun(cell, transport)
            heartbeat.phase(RUNNING)
            attempt = Attempt(
                cell, results, suite.checkpoint_every_seconds, hold, transport, emulated, heartbeat.doing
            )
            attempt.notes.append(f"{cell.workers} ranks are ready after {time.monotonic() - began:.2f} s")
            code = train(attempt)
        except Interrupted as error:
            heartbeat.report(How.INTERRUPTED, str(error.number))
            heartbeat.leave(transport.part)
            if placement.rank == 0:
                raise
            return 128 + error.number
        except UserError as error:
            if not (error.known_to_all or (common and attempt is None)):
                heartbeat.end(How.TROUBLE, str(error))
            heartbeat.report(How.TROUBLE, str(error))
            heartbeat.leave(transport.part)
            if placement.rank == 0:
                raise
            return BAD_INPUT
        except ConnectionLost as error:
            # A failure that the others could not be informed of. One that all know of has its record.
            if attempt is not None and attempt.failed and attempt.outcome is not None:
                status, reason = attempt.outcome
                heartbeat.end(How(status), str(reason))
            heartbeat.end(How.LOST, str(error))
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            heartbeat.end(How.TROUBLE, trouble(error))
        heartbeat.leave(transport.close)
        return code


def end_process(code: int) -> Never:
    """End this process, whose rank is over, without the clean-up of the interpreter; forks end so, too.

    A thread of gloo may still hold the last tensors. If it releases one while the interpreter shuts down,
    CPython ends that thread in the middle of C++ code, and the process aborts.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def require_gpus_of_their_own(gpus: Sequence[str], nodes: Sequence[str]) -> None:
    """Require that no two ranks share a GPU.

    NCCL itself refuses them at its first collective, with "Duplicate GPU detected" (NVIDIA/nccl#1241).

    Args:
        gpus: the UUID of each rank's GPU.
        nodes: the name of each rank's node.

    Raises:
        UserError: two ranks do.
    """
    first: dict[str, int] = {}
    for rank, gpu in enumerate(gpus):
        other = first.setdefault(gpu, rank)
        if other != rank:
            raise UserError(
                f"ranks {other} and {rank} share a GPU of {nodes[rank]}, but NCCL needs one for each rank: "
                "start as many ranks on each node as it has GPUs, or set backend: gloo in the suite"
            )


def _join(
    cell: Cell,
    results: Path,
    suite: Suite,
    placement: Placement,
    statuses: Sequence[RankStatus],
    hold: bool,
    held: ExitStack,
) -> tuple[Heartbeat, torch.device]:
    """Join the other ranks; return the heartbeat of this one, which has begun, and its device.

    Before that the cell is locked: by the process that started the ranks, or else by rank 0.

    Raises:
        Refused: in all ranks, because rank 0 must not begin.
        UserError: this rank could not join the others, or cannot use its GPU.
    """
    partial, refusal = partial_folder(results, cell), None
    if not statuses and hold:
        statuses = in_files(partial / record.EXIT_REPORTS, placement.workers)
    elif not statuses:
        # A launcher has started the ranks, and each prints itself how it ends.
        statuses = in_memory([placement.node] * placement.workers)
        if placement.rank == 0:
            try:
                held.enter_context(locked(lock_file(results, cell), f"{cell.suite}/{cell.path}"))
                with writing(partial):
                    partial.mkdir(parents=True, exist_ok=True)
            except UserError as error:
                refusal = str(error)
    own, device = statuses[placement.rank], None
    own.phase(placement.node, "joins the others")
    try:
        _require_open_files(Cluster(cell.workers, cell.nodes))
        device = _device(cell, placement)
        join(placement, min(RENDEZVOUS_SECONDS, suite.hang_seconds), refusal)
        return Heartbeat(placement, statuses, partial / record.LOG, suite.hang_seconds), device
    except Refused:
        raise
    except UserError as error:
        # Either this machine lacks a resource or a GPU, or another rank may have been lost.
        own.ends(How.TROUBLE if isinstance(error, ResourceError) or device is None else How.LOST, str(error))
        raise


def _require_open_files(cluster: Cluster) -> None:
    """See that this process may open as many files as rank 0 needs, before anything waits for it in vain.

    Each channel has connections, pipes and shared memory for each of its members. The numbers are measured,
    and allow for 50 other files.

    Raises:
        ResourceError: the limit is lower, and this process may not raise it.
    """
    here = cluster.workers_per_node
    needed = 75 + 20 * here + 7 * (cluster.workers - here)
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if allowed >= needed or allowed == resource.RLIM_INFINITY:
        return
    if most != resource.RLIM_INFINITY and most < needed:
        raise ResourceError(
            f"a rank may open {most} files, and one of {cluster.workers} workers opens up to {needed}: raise "
            "the limit (ulimit -n), and start again"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, most))


def _device(cell: Cell, placement: Placement) -> torch.device:
    """Start the device of this rank.

    The start of CUDA keeps Python busy for many seconds (pytorch/pytorch#109159), in which no heartbeat could
    beat. So it comes before the first one, while the other ranks still wait for this one to join them.

    Raises:
        UserError: there is no GPU for this rank, or it does not work.
    """
    try:
        device = device_of(cell, placement.place)
        make_current(device)
    except RuntimeError as error:
        raise shortage(error) or error from None
    return device
