"""Writing files so that each is complete or does not exist."""

import errno
import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from safetensors import SafetensorError

from thinwire.base.errors import CannotWrite, ResourceError, UserError

# What `flock` says on a file system without locks, for example Lustre mounted without the option flock.
_WITHOUT_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK)


@contextmanager
def writing(target: Path) -> Iterator[None]:
    """Turn the system's error about a file that cannot be written into one sentence."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise CannotWrite(
            f"{target} cannot be written ({reason}): make room or name a folder that you may write to"
        ) from error


@contextmanager
def aside(path: Path) -> Iterator[Path]:
    """Give another path at which to write a file; at the end the file is renamed to `path`.

    Raises:
        CannotWrite: the file cannot be written.
        UserError: another file, which was to be read for it, cannot be read.
    """
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            yield scratch
            _sync(scratch)
            scratch.replace(path)
        except OSError as error:
            if error.filename is None or str(error.filename) == str(scratch):
                raise
            raise UserError(f"{error.filename} cannot be read ({error.strerror})") from None
        finally:
            scratch.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a file under another name and rename it when it is complete."""
    with aside(path) as scratch:
        scratch.write_text(text, encoding="utf-8")


def write_json(path: Path, content: object) -> None:
    """Write JSON under another name and rename it when it is complete; NaN and infinities are refused."""
    write_text(path, json.dumps(content, indent=1, allow_nan=False) + "\n")


@contextmanager
def locked(path: Path, what: str) -> Iterator[None]:
    """Lock `path` while this process works on `what`; the system releases the lock if the process dies.

    Raises:
        UserError: another process has the lock, or the file system has no locks.
    """
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("w")
    with file:
        remedy = "put the project on another one, or have this one mounted with locks (Lustre: -o flock)"
        if not try_lock(file, remedy):
            raise UserError(f"another process is at work on {what}: let it end, or stop it")
        yield


def try_lock(file: IO[str] | IO[bytes], remedy: str) -> bool:
    """Lock an open file until it is closed; False if another process has locked it.

    Raises:
        ResourceError: the file system has no locks; the message ends with the remedy.
    """
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _WITHOUT_LOCKS:
            raise
        raise ResourceError(
            f"the file system of {file.name} has no locks ({error.strerror}): {remedy}"
        ) from None
    return True


def publish(folder: Path, target: Path) -> None:
    """Rename a finished folder to `target`; a folder that is there already is replaced, never merged.

    If `target` is on another file system, the folder is copied there first.
    """
    with writing(target):
        for path in folder.iterdir():
            _sync(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        for leftover in target.parent.glob(f".{target.name}.old.*"):
            shutil.rmtree(leftover, ignore_errors=True)
        old = target.with_name(f".{target.name}.old.{os.getpid()}")
        try:
            folder.rename(target)
        except OSError as error:
            if error.errno == errno.EXDEV:
                copy = target.with_name(f".{target.name}.new.{os.getpid()}")
                shutil.rmtree(copy, ignore_errors=True)
                shutil.copytree(folder, copy)
                publish(copy, target)
                shutil.rmtree(folder)
                return
            if not target.exists():
                raise
            target.rename(old)
            folder.rename(target)
        _sync(target.parent)
        shutil.rmtree(old, ignore_errors=True)


def stamp(path: Path) -> tuple[int, int] | None:
    """Inode and time of a file, which change when it is replaced; None if there is no file."""
    try:
        about = path.stat()
    except OSError:
        return None
    return about.st_ino, about.st_mtime_ns


def _sync(path: Path) -> None:
    """Flush to disk, so that what was written survives a crash of the machine."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
