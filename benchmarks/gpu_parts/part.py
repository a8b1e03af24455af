"""What a part gets and what it gives, and how it runs: in a fork of its own, for a limited time.

A process that has used CUDA cannot fork, and a fault of CUDA stays in its process. So the process that starts
the parts never uses CUDA, and each part is a fork of it. A part that hangs or dies does not lose the others.
"""

import json
import os
import signal
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from thinwire.base.placement import on_gpu
from thinwire.launch.run_processes import fork
from thinwire.train.cell_task import deterministic

# After its time a part is asked to end. A call that does not return is ended after so many seconds more.
_GRACE_SECONDS = 5.0
_POLL_SECONDS = 0.05


class NotHere(Exception):
    """A part cannot run on this machine; the message says why."""


class TimeUp(BaseException):
    """The time of a part is over. No part takes it for an error of what it measures."""


@dataclass(frozen=True)
class Place:
    """Where a part runs, and on how much."""

    device: torch.device
    small: bool
    """Little data, few repetitions and some of the methods, so that all parts end within seconds."""

    @property
    def is_gpu(self) -> bool:
        """Can the host run ahead of the device?"""
        return on_gpu(self.device)

    def wait(self) -> None:
        """Wait until the device has done everything that it has now."""
        if self.is_gpu:
            torch.cuda.synchronize(self.device)

    def seconds(self, action: Callable[[], object]) -> float:
        """How long an action takes, with all that it starts on the device."""
        self.wait()
        began = time.perf_counter()
        action()
        self.wait()
        return time.perf_counter() - began


@dataclass
class Found:
    """What a part has found so far; what it has when its time is over is kept."""

    figures: dict[str, Any] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)  # what should hold and does not, a sentence each
    not_here: str | None = None  # why the part cannot run here


Part = Callable[[Place, Found], None]


def run(name: str, part: Part, place: Place, seconds: float) -> dict[str, Any]:
    """Run a part in a fork, and return its line; whatever it raises is its result.

    Args:
        name: of the part.
        part: puts what it finds into the `Found` that it is given.
        place: where it runs.
        seconds: after which it is ended.
    """
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="thinwire-part-") as folder:
        path = Path(folder) / "found.json"
        how = _ended(fork(lambda: _inside(part, place, seconds, path)), seconds + _GRACE_SECONDS)
        found = Found(**json.loads(path.read_text())) if path.exists() else Found(broken=[how])
    line: dict[str, Any] = {
        "part": name,
        "seconds": round(time.perf_counter() - began, 1),
        "held": not found.broken,
        "figures": rounded(found.figures),
    }
    line |= {"broken": found.broken} if found.broken else {}
    return line | ({"not_here": found.not_here} if found.not_here else {})


def rounded(figures: Any) -> Any:
    """Four digits of every number are enough."""
    if isinstance(figures, dict):
        return {name: rounded(value) for name, value in figures.items()}
    return float(f"{figures:.4g}") if isinstance(figures, float) else figures


def first_line(error: BaseException) -> str:
    """An error in one line: its first one, or the last one of a stack that another process has sent."""
    lines = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {lines[-1] if 'Traceback (most' in lines[0] else lines[0]}"


def _inside(part: Part, place: Place, seconds: float, path: Path) -> int:
    """Run the part in this process, and write what it has found."""

    def end(*_: object) -> None:
        raise TimeUp

    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    found = Found()
    try:
        deterministic(place.device)
        part(place, found)
    except NotHere as why:
        found.not_here = str(why)
    except TimeUp:
        found.broken.append(f"it took longer than {round(seconds, 1):g} s; its figures are those until then")
    except Exception as error:
        found.broken.append(first_line(error))
    signal.setitimer(signal.ITIMER_REAL, 0)
    written = path.with_suffix(".new")
    written.write_text(json.dumps(vars(found)))
    written.rename(path)
    return 0


def _ended(child: int, seconds: float) -> str:
    """Wait for a child, and end it and all that it started after some seconds; say how it ended."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            return f"{signal.Signals(-code).name} ended it" if code < 0 else f"it ended with exit code {code}"
        time.sleep(_POLL_SECONDS)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return "it hung, and was ended"
