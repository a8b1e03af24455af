"""Runs functions in several connected processes, for tests of what happens between them."""

import atexit
import multiprocessing
import os
import pickle
import socket
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

import pytest
import torch
import torch.distributed as dist

from thinwire.base.placement import Address, Cluster, Placement
from thinwire.train.cell_task import deterministic
from thinwire.transport import rendezvous
from thinwire.transport.endpoint import first_difference
from thinwire.transport.processes import Processes

T = TypeVar("T")
# One process imports torch and the engine; the others are its forks.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.preloaded"])
# After one process has failed: seconds without progress, after which the others are taken not to fail too.
GRACE = 2.0
# Seconds in which a living process must have answered. Dead ones are noticed at once.
ANSWER = 30.0
# Seconds in which processes must have started, connected and begun to work, on a busy machine.
MEETING = 300.0
_POLL_SECONDS = 0.1


class Failed(AssertionError):
    """A process raised, died, or did not end."""


class Endless(Failed):
    """A process did not end."""


def run(function: Callable[..., Any], workers: int, *args: Any, patience: float = 300) -> list[Any]:
    """Run `function(*args)` in processes that have joined one process group, and return what each returned.

    Raises:
        Failed: with the traceback of the first process that raised; the others are killed.
    """
    (outcome,) = run_all([function], workers, *args, patience=patience)
    if isinstance(outcome, Failed):
        raise outcome
    return outcome


def run_all(
    functions: Sequence[Callable[..., Any]], workers: int, *args: Any, patience: float = 300
) -> list[list[Any] | Failed]:
    """Run one function after the other in the same processes.

    Args:
        functions: called with `args`; what they return is pickled.
        workers: number of processes.
        args: arguments of all functions.
        patience: seconds without progress of any worker, after which a function is ended. Workers make
            progress when they call a verb of a channel, or wait for it; so slow machines are no failure.

    Returns:
        What each function has returned, by rank, or why it failed. If a function fails, its processes are
        killed, and the next functions run in new ones. If it does not end, no further function runs.

    Raises:
        Failed: the processes did not connect.
    """
    outcomes: list[list[Any] | Failed] = []
    while len(outcomes) < len(functions):
        outcomes += _launch(functions[len(outcomes) :], workers, args, patience)
        if isinstance(outcomes[-1], Endless):
            not_run = Failed("it was not run, because one before it did not end")
            outcomes += [not_run] * (len(functions) - len(outcomes))
    return outcomes


def _launch(
    functions: Sequence[Callable[..., Any]], workers: int, args: Any, patience: float
) -> list[list[Any] | Failed]:
    """The outcomes of the functions, up to the first that fails."""
    moves = CONTEXT.RawArray("L", workers)
    pipes: list[Connection] = []
    processes: list[Any] = []
    outcomes: list[list[Any] | Failed] = []
    sound = False
    try:
        with reserved_port() as port:
            for rank in range(workers):
                here, there = CONTEXT.Pipe()
                pipes.append(here)
                given = (rank, workers, port, there, moves, functions, args)
                processes.append(CONTEXT.Process(target=_rank, args=given))
                processes[-1].start()
                there.close()
            if isinstance(met := _outcome(pipes, moves, MEETING), Failed):
                raise met
        while len(outcomes) < len(functions):
            outcomes.append(_outcome(pipes, moves, patience))
            if isinstance(outcomes[-1], Failed):
                break
        else:
            sound = True
    finally:
        for process in processes:
            if not sound:
                process.kill()
            process.join()
    return outcomes


@contextmanager
def reserved_port() -> Iterator[int]:
    """A port on which one process may listen, and which the system gives to no other process."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


def apart(function: Callable[..., T], *args: Any) -> T:
    """Run a function in another process, which ends with it; arguments are pickled."""
    with ProcessPoolExecutor(1, CONTEXT, _set_torch) as pool:
        return pool.submit(function, *args).result()


def transport(cluster: Cluster) -> Processes:
    """Open the transport of this process. It is closed when the function has ended."""
    opened = Processes(cluster, torch.device("cpu"), doing=_note, log_calls=True)
    _OPEN.append(opened)
    return opened


def on_device_group(function: Callable[..., Any], *args: Any) -> Any:
    """Run a function on the path of GPUs, but with gloo, and tensors on the CPU; in one of the processes."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr("thinwire.transport.processes.uses_device_group", lambda device, backend: True)
        return function(*args)


def close() -> None:
    """Close all transports of this process."""
    while _OPEN:
        _OPEN[0].close()
        del _OPEN[0]


def once(make: Callable[[], T]) -> T:
    """What `make` returns in the first process, for all processes."""
    if not dist.is_initialized():
        return make()
    box = [make() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(box)
    return box[0]  # type: ignore[return-value]


def _outcome(pipes: list[Connection], moves: Sequence[int], patience: float) -> list[Any] | Failed:
    """The outcome of the current function, as its processes report it."""
    given: dict[int, Any] = {}
    raised: dict[int, str] = {}
    before, still = list(moves), 0.0
    while silent := [pipe for rank, pipe in enumerate(pipes) if rank not in given and rank not in raised]:
        ready = wait(silent, _POLL_SECONDS)
        for pipe in ready:
            rank = pipes.index(pipe)
            try:
                sound, reply = _received(pipe)
            except (EOFError, ConnectionResetError):
                sound, reply = False, "the process died"
            (given if sound else raised)[rank] = reply
        # Polls are counted, and no clock is read: what stops this process stops the others, too.
        still = 0.0 if ready or list(moves) != before else still + _POLL_SECONDS
        before = list(moves)
        # Who has not moved yet still makes what it will train, however long a busy machine takes for that.
        if still > (GRACE if raised else patience if all(moves) else MEETING):
            break
    if raised:
        failures = [f"rank {rank}: {raised[rank]}" for rank in sorted(raised)]
        return Failed("\n".join([*failures, _waiting(pipes)]))
    if silent:
        return Endless(f"nothing has moved for {patience:.0f} s:\n{_waiting(pipes)}")
    return [given[rank] for rank in range(len(pipes))]


def _received(pipe: Connection) -> Any:
    return pickle.loads(pipe.recv_bytes())


def _waiting(pipes: list[Connection]) -> str:
    """What each process is doing, and where their calls differ. Processes that have died do not answer."""
    replies: dict[int, Any] = {}
    for rank, pipe in enumerate(pipes):
        with suppress(OSError, EOFError):
            pipe.send("?")
            while rank not in replies and pipe.poll(ANSWER):
                about, reply = _received(pipe)
                if about == "replies":
                    replies[rank] = reply
    lines = [f"rank {rank} {reply['doing']}" for rank, reply in replies.items()]
    for channels in zip(*(reply["calls"] for reply in replies.values())):
        for key in dict.fromkeys(key for logs in channels for key in logs):
            logs = {rank: logs[key] for rank, logs in zip(replies, channels) if key in logs}
            if different := first_difference(logs):
                lines.append(f"run.{key.split('/')[0]}: {different}")
    return "\n".join(lines)


# State of this process: its open transports, what its worker is doing, and whom it notifies of progress.
_OPEN: list[Processes] = []
_DOING = ["has not begun to wait for anything"]
_MOVES: list[Callable[[], None]] = []


def _note(what: str) -> None:
    _DOING[0] = what
    for moved in _MOVES:
        moved()


def _set_torch() -> None:
    deterministic(torch.device("cpu"))
    torch.utils.deterministic.fill_uninitialized_memory = True


def _rank(
    rank: int,
    workers: int,
    port: int,
    pipe: Connection,
    moves: Any,
    functions: Sequence[Callable[..., Any]],
    args: Any,
) -> None:
    _set_torch()
    turn = threading.Lock()

    def moved() -> None:
        moves[rank] += 1

    _MOVES.append(moved)

    def say(*words: Any) -> None:
        # Pickled here, because `send` would give tensors as shared memory, which is gone with this process.
        with turn:
            pipe.send_bytes(pickle.dumps(words))

    def answer() -> None:
        try:
            pipe.recv()
            say("replies", {"doing": _DOING[0], "calls": [opened.calls() for opened in _OPEN]})
            pipe.recv()
        except EOFError:
            os._exit(1)  # the process that started this one is gone

    threading.Thread(target=answer, daemon=True).start()
    try:
        # Not in a file, as forks of a run do: torch looks into a file for news only every 10 ms.
        placement = Placement(rank, workers, rank, "here", "test", Address("127.0.0.1", port, "tests"))
        rendezvous.join(placement, MEETING)
        say(True, None)
        for function in functions:
            given = function(*args)
            close()
            say(True, given)
    except BaseException:
        say(False, traceback.format_exc())
        # Wait to be killed: if this process ended, those that wait for it would fail before they are asked.
        threading.Event().wait()
    dist.barrier()
    dist.destroy_process_group()
    atexit._clear()
    os._exit(0)
