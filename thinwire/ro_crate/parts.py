"""The files and folders of a crate: what was read and what was made."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from thinwire import digests
from thinwire.data.dataset import MANIFEST
from thinwire.record import RUN
from thinwire.report import report_digests
from thinwire.report.result_names import (
    CLAIMS,
    CLAIMS_DIGESTS,
    CLAIMS_TEXT,
    COLLECTED,
    CURVES,
    DIGESTS,
    PAPER,
    SUMMARY,
    TRAFFIC,
)
from thinwire.ro_crate.entities import Entity, file_entity, path_id, refs


def data_sets(labels: Iterable[str], crate: Path) -> list[Entity]:
    """The manifests of these data sets, if they are still laid out; each has the digests of its arrays."""
    made = []
    for label in sorted(set(labels)):
        if (path := crate / "data" / label / MANIFEST).exists():
            about = digests.read_json(path)
            described = f"From {about['source']}. Licence: {about['licence']}."
            made.append(file_entity(path, crate, f"data set {label}") | {"description": described})
    return made


def collected(crate: Path) -> list[Entity]:
    """What was made of the records of all suites together."""
    names = {
        SUMMARY: "one row for each run",
        CURVES: "one row for each evaluation of each run",
        TRAFFIC: "the payload of each run by channel, verb and kind",
        COLLECTED: "the records from which these were collected",
        CLAIMS: "a verdict on each claim of the publications",
        CLAIMS_TEXT: "the same, to read",
        CLAIMS_DIGESTS: "the digests of both",
        "index.html": "all results on one page",
        PAPER: "the paper, whose numbers lead to the runs",
    }
    there = {crate / name: text for name, text in names.items() if (crate / name).exists()}
    for path in there:
        report_digests.require_as_made(crate, path)
    return [file_entity(path, crate, text) for path, text in there.items()]


def made_of_suite(suite: str, crate: Path) -> list[Entity]:
    """The tables and figures of a suite, and their digests; none if it has no tables.

    Raises:
        UserError: one of them was changed since it was made.
    """
    own = crate / "tables" / suite / DIGESTS
    if not own.exists():
        return []
    files = [crate / name for name in report_digests.listed(crate, suite)]
    for path in files:
        report_digests.require_as_made(crate, path)
    return [file_entity(path, crate, f"{path.name} of suite {suite}") for path in (*files, own)]


def run_files(folders: Mapping[str, Sequence[Path]], crate: Path) -> list[Entity]:
    """The `run.json` of each run, which has the digests of the files beside it, in the folder of its suite.

    Args:
        folders: of the records of each suite.
        crate: the folder of results.
    """
    made: list[Entity] = []
    for suite, own in folders.items():
        files = [file_entity(folder / RUN, crate, "record of a run") for folder in own]
        place = {"@id": path_id(crate / "runs" / suite, crate), "@type": "Dataset"}
        about = {"name": f"records of suite {suite}", "hasPart": refs(file["@id"] for file in files)}
        made += [place | about, *files]
    return made
