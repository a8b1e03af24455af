"""Digests of tables and figures, of what those of a suite were made from, and of the verdicts on claims."""

from pathlib import Path

from thinwire import digests
from thinwire.errors import UserError
from thinwire.report.result_names import CLAIMS, CLAIMS_DIGESTS, CLAIMS_TEXT, COLLECTED, DIGESTS
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


def write_of_claims(results: Path) -> None:
    """Write the digests of the verdicts on claims, after they are written."""
    files = digests.of_files(results, (CLAIMS, CLAIMS_TEXT))
    digests.write_json(results / CLAIMS_DIGESTS, {"files": files})


def require_as_made(results: Path, path: Path) -> None:
    """Refuse a table or figure of a suite, or verdicts on claims, that were changed since they were made.

    Args:
        results: the folder of results.
        path: in it; other files have no digest here, and pass.

    Raises:
        UserError: it was changed, or the digests were.
    """
    place = path.relative_to(results)
    folders = place.parent.parts
    if str(place) in (CLAIMS, CLAIMS_TEXT):
        listing, again = results / CLAIMS_DIGESTS, suggested_command("claims", results=results)
    elif len(folders) > 1 and folders[0] in _FOLDERS:
        suite = "/".join(folders[1:])
        listing, again = results / "tables" / suite / DIGESTS, _report(results, suite)
    else:
        return
    try:
        if digests.of_file(path) != _part(listing, "files").get(str(place)):
            raise digests.Damaged(f"{path} was changed after it was made (its SHA-256 differs)")
    except digests.Damaged as error:
        raise UserError(f"{error}: make it again with {again}") from None


def require_times_as_used(results: Path, suite: str) -> None:
    """Refuse simulated times other than those that the tables of a suite were made from.

    Raises:
        UserError: they are others, or the digests were changed.
    """
    key = "simulated times"
    try:
        used = _part(results / "tables" / suite / DIGESTS, "made_from").get(key)
    except digests.Damaged as error:
        raise UserError(f"{error}: make the tables again with {_report(results, suite)}") from None
    if made_from(results, suite).get(key) != used:
        raise UserError(
            f"the tables of {suite} were made from other times than {simulated_file.path_of(results, suite)} "
            f"has: make them again with {_report(results, suite)}"
        )


def _part(path: Path, key: str) -> dict[str, str]:
    """A part of a file of digests."""
    part = digests.read_json(path).get(key)
    if not isinstance(part, dict):
        raise digests.Damaged(f"{path} holds what thinwire does not write")
    return part


def _report(results: Path, suite: str) -> str:
    return suggested_command("report", suite, results=results)


def made_from(results: Path, suite: str) -> dict[str, str]:
    """The digests of what the tables of a suite depend on now: its collected records and simulated times."""
    records = digests.read_json(results / COLLECTED).get("records", {})
    own = {path: digest for path, digest in records.items() if path.startswith(f"runs/{suite}/")}
    simulated = simulated_file.path_of(results, suite)
    times = {"simulated times": digests.of_file(simulated)} if simulated.exists() else {}
    return {"records": digests.of_object(own), **times}
