"""Runs `thinwire` in forks of a process that has already imported it, as if it had been started anew.

A fork leaves the frames in which it was made (`Become`), so that what these hold is gone when it ends. The
processes that the engine starts are forked, too: `python -m thinwire`, and `srun`. The ranks of `srun` are
put into a network namespace for each node.
"""

import atexit
import inspect
import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Never

from tests.faults import sandbox
from thinwire.emulation.network import INTERFACE, Network

# Fast enough for anything that a tiny run sends.
BITS_PER_SECOND = 1e9
# Seconds after which Slurm ends a step whose first task has ended.
_WAIT_SECONDS = 30.0


class Become(BaseException):
    """Raised in a fork to leave its frames; then the fork only does `call`."""

    def __init__(self, call: Callable[[], None]) -> None:
        super().__init__()
        self.call = call


def follow(call: Callable[[], None]) -> None:
    """Do `call`; in a fork, do what the fork has become."""
    following: Callable[[], None] | None = call
    while following is not None:
        try:
            following()
            following = None
        except Become as become:
            following = become.call


def fork(call: Callable[[], None]) -> int:
    """Fork a child that does nothing but `call`, and return its process id."""
    child = os.fork()
    if child == 0:
        raise Become(call)
    return child


def thinwire(arguments: list[str], keep: tuple[int, ...] = ()) -> Never:
    """Do what `python -m thinwire ARGUMENTS` does. Of the open files, only those in `keep` stay open."""
    os.environ.pop("PYTHONSTARTUP", None)
    high = max(keep, default=2)
    for number in range(3, high + 1):
        if number not in keep:
            with suppress(OSError):
                os.close(number)
    os.closerange(high + 1, 512)
    for number in signal.Signals:
        if number not in (signal.SIGKILL, signal.SIGSTOP):
            quiet = (signal.SIGPIPE, signal.SIGXFSZ)
            signal.signal(number, signal.SIG_IGN if number in quiet else signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(n, mode, closefd=False) for n, mode in enumerate("rww"))
    sys.stderr.reconfigure(line_buffering=True)
    sys.argv = ["thinwire", *arguments]
    from thinwire.cli.main import main

    _end_after(main)


def _end_after(work: Callable[[], object]) -> Never:
    """Do the work, and end this fork with the exit code that it asks for, as Python ends a process.

    The modules stay as they are. Python takes them apart, which in a fork copies most of the memory of its
    parent and takes longer than most commands do.

    Raises:
        BaseException: what the work has raised, unless it is `SystemExit`. Python shows it, and ends.
    """
    asked: object = None
    try:
        work()
    except SystemExit as ending:
        asked = ending.code
    if isinstance(asked, str):
        print(asked, file=sys.stderr)
    # What Python does first, in its order.
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(asked & 0xFF if isinstance(asked, int) else asked is not None)


class Forking(subprocess.Popen):
    """A `Popen` that forks where it would begin a Python process."""

    keep: tuple[int, ...] = ()
    link: Network | None = None

    def _execute_child(self, *arguments: Any, **named: Any) -> None:
        given = inspect.signature(super()._execute_child).bind(*arguments, **named).arguments
        command = list(map(str, given["args"])) if not isinstance(given["args"], str) else []
        if "thinwire" not in command:
            given["args"] = ["true"] if command[:1] == ["scontrol"] else given["args"]
            super()._execute_child(**given)
            return
        own = command[command.index("thinwire") + 1 :]

        # Copies, because frames that a fork leaves may close what they have opened.
        streams = [
            os.dup(number if given[name] == -1 else given[name])
            for number, name in enumerate(("p2cread", "c2pwrite", "errwrite"))
        ]
        ends_of_parent = [given[name] for name in ("p2cwrite", "c2pread", "errread")]

        def call() -> None:
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
            for end in ends_of_parent:
                with suppress(OSError):
                    os.close(end)
            if given["start_new_session"]:
                os.setsid()
            if command[0] == "srun":
                _srun(command, own, self.keep, self.link)
            thinwire(own, self.keep)

        self.pid = fork(call)
        self._child_created = True
        for stream in streams:
            os.close(stream)
        pipes = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(given[name] for name in pipes))


def _srun(command: list[str], arguments: list[str], keep: tuple[int, ...], link: Network | None) -> None:
    """Run tasks on two nodes, each at its end of the link. Exits with the highest code.

    For each line of stdin, which begins a run, the link is up again.
    """
    assert link is not None
    tasks = int(next(word.split("=")[1] for word in command if word.startswith("--ntasks=")))
    inputs = [os.pipe() for _ in range(tasks)]

    def task(rank: int) -> Callable[[], None]:
        def call() -> None:
            sandbox.die_with_parent()
            os.dup2(inputs[rank][0], 0)
            for pipe in inputs:
                for end in pipe:
                    os.close(end)
            node = rank * 2 // tasks
            link.enter(node)
            os.environ |= {
                "SLURM_STEP_ID": "0",
                "SLURM_STEP_NUM_TASKS": str(tasks),
                "SLURM_STEP_NODELIST": "n[1-2]",
                "SLURM_PROCID": str(rank),
                "SLURM_LOCALID": str(rank % (tasks // 2)),
                "SLURMD_NODENAME": f"n{node + 1}",
                "MASTER_ADDR": link.host,
                "GLOO_SOCKET_IFNAME": INTERFACE,
            }
            thinwire(arguments, keep)

        return call

    alive, worst, deadline = {fork(task(rank)) for rank in range(tasks)}, 0, None
    for here, _ in inputs:
        os.close(here)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, frame: [os.kill(pid, signal.SIGKILL) for pid in alive])
    more = b"?"
    while alive:
        if more and select.select([0], [], [], 0)[0]:
            more = os.read(0, 2**16)
            for node in range(2):
                link.enter(node)
                sandbox.set_link(INTERFACE, up=True)
            for _, there in inputs:
                with suppress(BrokenPipeError):
                    os.write(there, more)
                if not more:
                    os.close(there)
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid:
            alive.discard(pid)
            code = os.waitstatus_to_exitcode(status)
            worst = max(worst, 128 - code if code < 0 else code)
            deadline = deadline or time.monotonic() + _WAIT_SECONDS
            continue
        if deadline is not None and time.monotonic() > deadline:
            for left in alive:
                os.kill(left, signal.SIGKILL)
        time.sleep(0.02)
    os._exit(worst)
