"""Fetching a file over HTTP: into a partial file first, taken up where it stopped."""

import http.client
import shutil
import urllib.error
import urllib.request
from pathlib import Path

from thinwire.errors import UserError
from thinwire.files import writing

TIMEOUT_SECONDS = 30
TRIES = 3


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
    for _ in range(TRIES):
        try:
            _continue(url, partial)
        except urllib.error.HTTPError as error:
            if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
                partial.write_bytes(b"")  # longer than the file is: begin again
            reason = error
            continue
        except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
            reason = error
            continue
        partial.rename(target)
        return
    raise UserError(f"{url} cannot be fetched ({reason}): {otherwise}") from None


def _continue(url: str, partial: Path) -> None:
    """Fetch what is missing of a partial file."""
    have = partial.stat().st_size
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as answer:
        # A server that does not know ranges sends everything again, with status 200.
        mode = "ab" if answer.status == 206 else "wb"
        with partial.open(mode) as file:
            shutil.copyfileobj(answer, file)
            missing = answer.length  # what the server announced and did not send
    if missing:
        raise http.client.IncompleteRead(b"", missing)
