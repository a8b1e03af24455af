"""Digests of the tables and figures of a suite, and of what they were made from."""

from pathlib import Path
from typing import Any

from thinwire import digests
from thinwire.errors import UserError
from thinwire.report.result_names import COLLECTED, DIGESTS
from thinwire.simulation import simulated_file
from thinwire.suggested_command import suggested_command

_FOLDERS = ("tables", "figures")


def write(results: Path, suite: str) -> None:
    """Write the digests of the tables and figures of a suite, after all of them are written."""
    folders = [results / kind / suite for kind in _FOLDERS]
    files = [
        p for folder in folders for p in sorted(folder.glob("[!.]*")) if p.is_file() and p.name != DIGESTS
    ]
    content = {
        "suite": suite,
        "made_from": made_from(results, suite),
        "files": digests.of_files(results, [str(path.relative_to(results)) for path in files]),
    }
    digests.write_json(results / "tables" / suite / DIGESTS, content)


def require_as_made(results: Path, path: Path) -> None:
    """Refuse a table or a figure of a suite that is not as `thinwire report` made it.

    Args:
        results: the folder of results.
        path: in it; files that belong to no suite have no digest here, and pass.

    Raises:
        UserError: it was changed since, or the digests were.
    """
    folders = path.relative_to(results).parent.parts
    if len(folders) < 2 or folders[0] not in _FOLDERS:
        return
    suite = "/".join(folders[1:])
    try:
        if digests.of_file(path) != listed(results, suite).get(str(path.relative_to(results))):
            raise digests.Damaged(f"{path} was changed after it was made (its SHA-256 differs)")
    except digests.Damaged as error:
        raise UserError(f"{error}: make it again with {_report(results, suite)}") from None


def require_times_as_used(results: Path, suite: str) -> None:
    """Refuse simulated times other than those that the tables of a suite were made from.

    Raises:
        UserError: they are others, or the digests were changed.
    """
    key = "simulated times"
    try:
        used = _read(results, suite)["made_from"].get(key)
    except digests.Damaged as error:
        raise UserError(f"{error}: make the tables again with {_report(results, suite)}") from None
    if made_from(results, suite).get(key) != used:
        raise UserError(
            f"the tables of {suite} were made from other times than {simulated_file.path_of(results, suite)} "
            f"has: make them again with {_report(results, suite)}"
        )


def listed(results: Path, suite: str) -> dict[str, str]:
    """The digests of the tables and figures of a suite, by their paths below the results.

    Raises:
        Damaged: they are missing or were changed.
    """
    files: dict[str, str] = _read(results, suite)["files"]
    return files


def _read(results: Path, suite: str) -> dict[str, Any]:
    path = results / "tables" / suite / DIGESTS
    content = digests.read_json(path)
    if not all(isinstance(content.get(key), dict) for key in ("files", "made_from")):
        raise digests.Damaged(f"{path} holds what `thinwire report` does not write")
    return content


def _report(results: Path, suite: str) -> str:
    return suggested_command("report", suite, results=results)


def made_from(results: Path, suite: str) -> dict[str, str]:
    """The digests of what the tables of a suite depend on now: its collected records and simulated times."""
    records = digests.read_json(results / COLLECTED).get("records", {})
    own = {path: digest for path, digest in records.items() if path.startswith(f"runs/{suite}/")}
    simulated = simulated_file.path_of(results, suite)
    times = {"simulated times": digests.of_file(simulated)} if simulated.exists() else {}
    return {"records": digests.of_object(own), **times}
