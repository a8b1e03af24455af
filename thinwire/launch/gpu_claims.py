"""Gives each job on a workstation GPUs of its own; on a cluster, Slurm does that.

A job claims a GPU with a lock on a file that is named after the GPU's UUID. The file is in the temporary
folder, so all pipelines of a user respect it. The ranks of a job are forks of the process that holds the
lock, so they hold it too. The system releases it when the last of them has ended.
"""

import os
import stat
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path

from thinwire.base.errors import UserError
from thinwire.base.files import try_lock, writing
from thinwire.base.folders import variable
from thinwire.base.nvidia_smi import visible_gpus
from thinwire.config.cell import Cell

_VISIBLE = "CUDA_VISIBLE_DEVICES"
_POLL_SECONDS = 1.0


def gpus_of(cell: Cell) -> int:
    """The GPUs of a cell on each of its nodes: one for each process with workers; none on CPUs."""
    if cell.device != "cuda":
        return 0
    return cell.workers // cell.nodes if cell.transport == "processes" else 1


def gpus_of_preparation(cell: Cell) -> int:
    """The GPUs of a cell's preparation, which is in one process."""
    return int(cell.device == "cuda")


@contextmanager
def gpus_claimed(number: int) -> Iterator[None]:
    """Let this process and its forks see only so many GPUs, which no other job sees; wait for them.

    If there are fewer GPUs, all of them are claimed. Nothing is claimed in a job of Slurm, or if no GPU is
    known.

    Raises:
        UserError: the folder of the locks cannot be used.
    """
    there = visible_gpus() if number and "SLURM_JOB_ID" not in os.environ else []
    if not there:
        yield
        return
    with claim(there, min(number, len(there))) as own, variable(_VISIBLE, ",".join(own)):
        yield


@contextmanager
def claim(gpus: Sequence[str], number: int) -> Iterator[list[str]]:
    """Claim this number of the GPUs with these UUIDs, all at once, and give their UUIDs."""
    folder = _folder()
    told = False
    while True:
        with ExitStack() as held:
            free = (gpu for gpu in gpus if _lock(folder / f"{gpu}.lock", held))
            own = list(islice(free, number))
            if len(own) == number:
                yield own
                return
        if not told:
            print(f"waits for {number} of {len(gpus)} GPUs: other runs have claimed them", flush=True)
            told = True
        time.sleep(_POLL_SECONDS)


def _lock(path: Path, held: ExitStack) -> bool:
    """Lock a file until `held` is closed; False if another process has locked it."""
    with ExitStack() as opened:
        with writing(path):
            file = opened.enter_context(path.open("w"))
        if not try_lock(file, "set TMPDIR to a folder on a local disk"):
            return False
        held.push(opened.pop_all())
    return True


def _folder() -> Path:
    """The folder of the locks, which belongs to this user alone."""
    path = Path(tempfile.gettempdir()) / f"thinwire-gpus-{os.geteuid()}"
    with writing(path):
        path.mkdir(mode=0o700, exist_ok=True)
    about = path.lstat()
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.geteuid():
        raise UserError(f"{path} is no folder of yours: remove it, or set TMPDIR to another folder")
    return path
