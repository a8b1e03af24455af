"""Digests of the tables and figures of a suite, and of what they were made from."""

from pathlib import Path

from thinwire import digests
from thinwire.report.result_names import COLLECTED, DIGESTS
from thinwire.simulation import simulated_file


def write(results: Path, suite: str) -> None:
    """Write the digests of the tables and figures of a suite, after all of them are written."""
    folders = (results / "tables" / suite, results / "figures" / suite)
    files = [
        p for folder in folders for p in sorted(folder.glob("[!.]*")) if p.is_file() and p.name != DIGESTS
    ]
    content = {
        "suite": suite,
        "made_from": made_from(results, suite),
        "files": digests.of_files(results, [str(path.relative_to(results)) for path in files]),
    }
    digests.write_json(results / "tables" / suite / DIGESTS, content)


def made_from(results: Path, suite: str) -> dict[str, str]:
    """The digests of what the tables of a suite depend on now: its collected records and simulated times."""
    records = digests.read_json(results / COLLECTED).get("records", {})
    own = {path: digest for path, digest in records.items() if path.startswith(f"runs/{suite}/")}
    simulated = simulated_file.path_of(results, suite)
    times = {"simulated times": digests.of_file(simulated)} if simulated.exists() else {}
    return {"records": digests.of_object(own), **times}
