"""A room is the process that tries a case: it starts the run, helps the fault, and checks what is left."""

import json
import os
import pty
import select
import signal
import subprocess
import termios
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from fcntl import ioctl
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.faults import forks, sandbox, suites
from tests.faults.injector import Injector, settle
from tests.faults.matrix import ALONE, BETWEEN, BLOCK, CLUSTER, PHASES, Case, folder_of_runs
from thinwire.emulation.network import Network

# Guards, far longer than anything takes on a busy machine: for a run that never ends, and for children that
# die with their parent, which takes a moment.
_ENDLESS_SECONDS = 300.0
_DYING_SECONDS = 60.0
_FROZEN_SECONDS = suites.HASTY_SECONDS + 1.5
_MEGABYTES = 48


@dataclass
class Call:
    """The outcome of a call of `thinwire`."""

    code: int | None = None  # None: it did not end
    out: str = ""
    err: str = ""
    log: str = ""
    status: str | None = None  # of the published record; None: there is none
    reason: str | None = None
    others: dict[str, str] = field(default_factory=dict)  # of the block: statuses of the other methods
    curve: str = ""  # without seconds, in full
    traffic: str = ""
    checkpoints: int = 0
    processes: list[str] = field(default_factory=list)  # left behind
    shm: list[str] = field(default_factory=list)
    locks: list[str] = field(default_factory=list)
    struck: bool = False  # whether the fault has come


class Room:
    """For one case."""

    def __init__(self, folder: Path, data: Path, case: Case | None = None) -> None:
        """Make it.

        Args:
            folder: for results; it is made.
            data: laid out, to be shared.
            case: None: nothing happens.
        """
        self._case = case
        self._results = folder / "results"
        self._marker = folder / "struck"
        self._mounted = sandbox.why_not() is None
        self._results.mkdir(parents=True)
        if self._mounted:
            sandbox.own_mounts()
            sandbox.tmpfs(sandbox.SHM, _MEGABYTES)
            sandbox.tmpfs(self._results, _MEGABYTES)
        sandbox.adopt_orphans()
        (self._results / "data").symlink_to(data)
        before = _open_files()
        cluster = case is not None and case.start == CLUSTER
        self._link = Network(2, forks.BITS_PER_SECOND) if cluster else None
        self._of_link = _open_files() - before

    def try_case(self) -> list[dict[str, Any]]:
        """Make the call that the fault hits, and further calls until one has published a record."""
        case = self._case
        assert case is not None
        calls = [self.call(case.suite, case.cell, case.start, case)]
        if case.fault in BETWEEN:
            self._spoil()
            calls.append(self.call(case.suite, case.cell, case.start))
        self._undo()
        if calls[-1].status is None and calls[-1].code is not None:
            calls.append(self.call(case.suite, case.cell, case.start))
        return [asdict(call) for call in calls]

    def call(self, suite: str, cell: str, start: str, case: Case | None = None) -> Call:
        """Start a run, wait until it ends, and check what is left."""
        made = Call()
        out, err, self._ask, self._answer = os.pipe(), os.pipe(), os.pipe(), os.pipe()
        terminal = pty.openpty() if case is not None and case.fault == "lost terminal" else None
        begin = self._run(suite, cell, start, case, out[1], err[1], terminal and terminal[1])
        main = forks.fork(begin)
        for end in (out[1], err[1], self._ask[1], self._answer[0], *(terminal[1:] if terminal else ())):
            os.close(end)
        self._open = {"out": out[0], "err": err[0], "terminal": terminal[0] if terminal else -1}
        output = {"out": b"", "err": b"", "terminal": b""}
        deadline = time.monotonic() + _ENDLESS_SECONDS
        status = None
        while status is None and time.monotonic() < deadline:
            self._listen(output, 0.05)
            pid, code = os.waitpid(main, os.WNOHANG)
            status = os.waitstatus_to_exitcode(code) if pid else None
        made.code = status
        left = self._left(_DYING_SECONDS if status is not None else 0)
        made.processes = [sandbox.doing(pid) for pid in left]
        while left:
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            left = self._left(0)
        self._listen(output, 0)
        for end in (*self._open.values(), self._ask[0], self._answer[1]):
            with suppress(OSError):
                os.close(end)
        made.out = (output["out"] + output["terminal"]).decode(errors="replace")
        made.err = output["err"].decode(errors="replace")
        self._look(made, suite, cell, start)
        return made

    def _run(self, suite, cell, start, case, out, err, terminal):
        """What the process of the run does."""

        def begin() -> None:
            sandbox.die_with_parent()
            os.setsid()
            nothing = os.open("/dev/null", os.O_RDWR)
            streams = [nothing, out, err]
            if terminal is not None:
                ioctl(terminal, termios.TIOCSCTTY, 0)
                streams = [terminal, terminal, terminal]
            if case is not None and case.fault == "full stdout":
                streams[1] = os.open("/dev/full", os.O_WRONLY)
            for number, stream in enumerate(streams):
                os.dup2(stream, number)
            keep = (self._ask[1], self._answer[0], *self._of_link)
            settle(case is not None and case.hasty)
            if case is not None and case.phase in PHASES:
                Injector(case, self._results, self._marker, self._wait_for_the_room).install()
            forks.Forking.keep, forks.Forking.link = keep, self._link
            subprocess.Popen = forks.Forking  # type: ignore[misc]
            if start == CLUSTER:
                # The batch script of a job on two nodes.
                os.environ |= {"SLURM_JOB_ID": "7", "SLURM_JOB_NUM_NODES": "2"}
            command = ["run", suite, cell, "--transport", "inprocess" if start == ALONE else "processes"]
            if start in (BLOCK, CLUSTER):
                dataset, model, _, *place = cell.split("/")
                command = ["train", suite, "/".join([dataset, model, *place])]
            forks.thinwire([*command, "--results", str(self._results)], keep)

        return begin

    def _wait_for_the_room(self) -> None:
        os.write(self._ask[1], b"?")
        os.read(self._answer[0], 1)

    def _listen(self, output: dict[str, bytes], seconds: float) -> None:
        """Read the run's output until it has been silent for some time, and do what it asks for."""
        while True:
            names = {end: name for name, end in self._open.items() if end >= 0}
            ready, _, _ = select.select([*names, self._ask[0]], [], [], seconds)
            if not ready:
                return
            for end in ready:
                received = b""
                with suppress(OSError):
                    received = os.read(end, 2**16)
                if end == self._ask[0]:
                    if not received:
                        return
                    self._do_our_part()
                    os.write(self._answer[1], b"!")
                    break
                output[names[end]] += received
                if not received:
                    self._close(names[end])

    def _close(self, name: str) -> None:
        if self._open[name] >= 0:
            os.close(self._open[name])
            self._open[name] = -1

    def _do_our_part(self) -> None:
        assert self._case is not None
        match self._case.fault:
            case "frozen":
                every = self._children()
                for pid in every:
                    os.kill(pid, signal.SIGSTOP)
                time.sleep(_FROZEN_SECONDS)
                for pid in reversed(every):
                    os.kill(pid, signal.SIGCONT)
            case "KILL all":
                for pid in self._children():
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
            case "lost terminal":
                self._close("terminal")
            case "closed stdout":
                self._close("out")
            case "closed output":
                self._close("out")
                self._close("err")

    def _undo(self) -> None:
        """Repair what was broken around the run."""
        assert self._case is not None
        if self._case.fault == "read-only results" and self._marker.exists():
            sandbox.writable(self._results)
        sandbox.clear(self._results)
        if self._mounted:
            sandbox.clear(sandbox.SHM)
        for tree in self._results.rglob("tree.json.sound"):
            tree.replace(tree.with_suffix(""))

    def _spoil(self) -> None:
        """Damage a run that has been stopped, before it continues."""
        assert self._case is not None
        if self._case.fault == "read-only results":
            sandbox.read_only(self._results)
        else:
            sandbox.cut_trees(self._results)

    def _left(self, seconds: float) -> list[int]:
        """The children that are still alive after so many seconds."""
        deadline = time.monotonic() + seconds
        while True:
            # A process that has just lost its parent is missing for a moment.
            left = self._children() or (time.sleep(0.05), self._children())[1]
            if not left or time.monotonic() > deadline:
                return left
            time.sleep(0.02)

    def _children(self) -> list[int]:
        """All processes that the run has started and that are alive; those that have ended are reaped."""
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        return sandbox.children()

    def _held_locks(self) -> list[str]:
        locks = self._results.rglob("*.lock")
        return [str(path.relative_to(self._results)) for path in locks if sandbox.is_locked(path)]

    def _look(self, made: Call, suite: str, cell: str, start: str) -> None:
        made.struck = self._marker.exists()
        of_runs = folder_of_runs(self._results, suite, start)
        runs, partial = of_runs / "runs" / suite, of_runs / "partial" / suite
        for path in sorted(runs.rglob("run.json")):
            record = json.loads(path.read_text())
            where = str(path.parent.relative_to(runs))
            if where != cell:
                made.others[where] = record["status"]
                continue
            made.status, made.reason = record["status"], record["reason"]
            made.curve, made.traffic = (_rows(path.with_name(f"{n}.parquet")) for n in ("curve", "traffic"))
        for folder in (runs / cell, partial / cell):
            if (folder / "log.txt").exists():
                made.log = (folder / "log.txt").read_text(errors="replace")
        # A block keeps what each of its runs prints.
        for path in sorted((self._results / "logs").rglob("*.txt")):
            made.out += path.read_text(errors="replace")
        made.checkpoints = len(list((partial / cell).rglob("tree.json")))
        if self._mounted:
            # Without mounts of our own others may be at work there.
            made.shm = [path.name for path in sandbox.SHM.glob("*") if path.name != sandbox.BALLAST]
        deadline = time.monotonic() + _DYING_SECONDS
        # Of a process that is gone, a thread may still be ending, and holds its files.
        while (held := self._held_locks()) and time.monotonic() < deadline:
            time.sleep(0.02)
        made.locks = held


def _open_files() -> set[int]:
    """The descriptors of this process."""
    return {int(path.name) for path in Path("/proc/self/fd").iterdir() if path.exists()}


def _rows(path: Path) -> str:
    """A table's content except seconds, with all digits."""
    table = pq.read_table(path)
    table = table.drop_columns([name for name in table.column_names if name.endswith("_seconds")])
    return "\n".join(sorted(map(repr, table.to_pylist())))
