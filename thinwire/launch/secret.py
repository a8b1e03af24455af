"""The secret by which the ranks of a run know each other, if srun or torchrun has started them.

Such ranks have no common parent that could pass it on, and every user can read a command line. So the secret
comes from a file in the results folder that only the user can read. The first rank to come creates the file.
"""

import hmac
import os
import secrets
import stat
import time
from contextlib import suppress
from pathlib import Path

from thinwire.config.cell import Cell
from thinwire.errors import UserError
from thinwire.files import writing
from thinwire.train.result_folders import secret_file
from thinwire.transport import handshake

# The rank that creates the file writes it within this time.
_WRITING_SECONDS = 10.0
_DIGITS = 2 * handshake.BYTES


def of_run(results: Path, cell: Cell, launch: str) -> bytes:
    """The secret of one launch of a cell. It does not reveal the secrets of other launches.

    Args:
        results: a folder that all ranks see.
        cell: to run.
        launch: the name that the launcher has for it.

    Raises:
        UserError: the file cannot be made or read, or others can read it.
    """
    users = _read_or_make(secret_file(results, os.geteuid()))
    return hmac.digest(users, f"{launch} {cell.suite}/{cell.path}".encode(), "sha256")


def _read_or_make(path: Path) -> bytes:
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return _read(path)
        try:
            with os.fdopen(descriptor, "w") as file:
                file.write(secrets.token_hex(handshake.BYTES))
        except OSError:
            path.unlink()
            raise
    return _read(path)


def _read(path: Path) -> bytes:
    deadline = time.monotonic() + _WRITING_SECONDS
    while True:
        try:
            with path.open(errors="replace") as file:
                mode, text = stat.S_IMODE(os.fstat(file.fileno()).st_mode), file.read(_DIGITS + 1)
        except OSError as error:
            raise UserError(f"{path} cannot be read ({error.strerror}): remove it, and start again") from None
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise UserError(
                f"{path} has mode {mode:o}, so that others can read the secret of your runs: remove it, and "
                "start again"
            )
        with suppress(ValueError):
            if len(text) == _DIGITS:
                return bytes.fromhex(text)
        if time.monotonic() > deadline:
            raise UserError(f"{path} is incomplete: remove it, and start again")
        time.sleep(0.05)
