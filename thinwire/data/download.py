"""Fetching a file over HTTP: into a partial file first, taken up where it stopped."""

import http.client
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from thinwire.errors import UserError
from thinwire.files import writing

TIMEOUT_SECONDS = 30
TRIES = 3  # in a row without a byte
_BLOCK_BYTES = 2**18


def download(url: str, target: Path, otherwise: str) -> None:
    """Fetch `url` into `target` unless it is there; what arrived before a break is not fetched again.

    Raises:
        UserError: it could not be fetched; `otherwise` says what to do instead.
    """
    if target.exists():
        return
    partial = target.with_name(f"{target.name}.partial")
    with writing(partial):
        target.parent.mkdir(parents=True, exist_ok=True)
        partial.touch()
    reason: Exception | None = None
    tries = 0
    while tries < TRIES:
        before = partial.stat().st_size
        try:
            _continue(url, partial)
        except urllib.error.HTTPError as error:
            if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                partial.write_bytes(b"")  # longer than the file is: begin again
            error.close()
            reason = error
        except (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError) as error:
            reason = error
        else:
            partial.rename(target)
            return
        # A connection that breaks again and again gets there, as long as something comes.
        tries = 0 if partial.stat().st_size > before else tries + 1
    raise UserError(f"{url} cannot be fetched ({reason}): {otherwise}") from None


def _continue(url: str, partial: Path) -> None:
    """Fetch what is missing of a partial file, showing how it goes."""
    have = partial.stat().st_size
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
        # A server that does not know ranges sends everything again, with status 200.
        goes_on = answer.status == 206
        with _progress(partial.stem, answer.length, have if goes_on else 0) as show:
            with partial.open("ab" if goes_on else "wb") as file:
                while block := answer.read(_BLOCK_BYTES):
                    with writing(partial):
                        file.write(block)
                    show(len(block))
            missing = answer.length  # what the server announced and did not send
    if missing:
        raise http.client.IncompleteRead(b"", missing)


@contextmanager
def _progress(name: str, length: int | None, have: int) -> Iterator[Callable[[int], None]]:
    """A bar in a terminal; gives what to call with the bytes that have come."""
    console = Console(stderr=True)
    columns = (TextColumn(name), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(name, total=None if length is None else have + length, completed=have)
        yield lambda count: bar.update(task, advance=count)
