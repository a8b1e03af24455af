"""Downloads a file over HTTP into a partial file, and continues where a broken download stopped."""

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
TRIES = 3  # tries in a row that brought no byte
_BLOCK_BYTES = 2**18


def download(url: str, target: Path, otherwise: str) -> None:
    """Download `url` to `target` unless it exists. Bytes that arrived before a break are kept.

    Raises:
        UserError: the download failed; its message ends in `otherwise`, which says what to do instead.
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
                partial.write_bytes(b"")  # it is longer than the file: begin again
            error.close()
            reason = error
        except (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError) as error:
            reason = error
        else:
            partial.rename(target)
            return
        # A connection that keeps breaking is used on, as long as every try brings some bytes.
        tries = 0 if partial.stat().st_size > before else tries + 1
    raise UserError(f"{url} cannot be fetched ({reason}): {otherwise}") from None


def _continue(url: str, partial: Path) -> None:
    """Download the missing rest of a partial file, and show the progress."""
    have = partial.stat().st_size
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
        # A server that does not support ranges sends the whole file again, with status 200.
        continues = answer.status == http.HTTPStatus.PARTIAL_CONTENT
        with _progress(partial.stem, answer.length, have if continues else 0) as show:
            with partial.open("ab" if continues else "wb") as file:
                while block := answer.read(_BLOCK_BYTES):
                    with writing(partial):
                        file.write(block)
                    show(len(block))
            missing = answer.length  # bytes that the server announced and did not send
    if missing:
        raise http.client.IncompleteRead(b"", missing)


@contextmanager
def _progress(name: str, length: int | None, have: int) -> Iterator[Callable[[int], None]]:
    """Show a progress bar, if in a terminal. Yields a function to call with the number of new bytes."""
    console = Console(stderr=True)
    columns = (TextColumn(name), BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(name, total=None if length is None else have + length, completed=have)
        yield lambda count: bar.update(task, advance=count)
