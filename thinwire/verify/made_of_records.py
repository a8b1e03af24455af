"""Checks that collected files, tables and figures belong to the records from which they were made."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pandas as pd
import pyarrow as pa

from thinwire import digests
from thinwire.errors import UserError
from thinwire.report import collected_rows, report_digests
from thinwire.report.require_sound_record import SoundRecord
from thinwire.report.result_names import COLLECTED, CURVES, DIGESTS, SUMMARY, TRAFFIC
from thinwire.suggested_command import suggested_command

_AGAIN = "start the pipeline again"
# What reading gives if somebody has written another content with right digests.
_NOT_OURS = (AttributeError, KeyError, TypeError, ValueError, pa.ArrowException)


def problems_of_collected(results: Path, sound: Mapping[str, SoundRecord]) -> Iterator[str]:
    """What is wrong with the collected files and `collected.json`, in a sentence each.

    Args:
        results: the folder of results.
        sound: the records that are sound in themselves, by the path of their `run.json` below it.
    """
    path = results / COLLECTED
    if not path.exists():
        left = [results / name for name in (SUMMARY, CURVES, TRAFFIC) if (results / name).exists()]
        yield from (
            f"{each} has no {COLLECTED} beside it, which says where it is from: {_AGAIN}" for each in left
        )
        return
    try:
        content = digests.read_json(path)
        if not isinstance(listed := content.get("records"), dict):
            raise UserError(f"{path} lists no records: an earlier version of thinwire wrote it")
        digests.require_files(results, content["files"])
        yield from list(_problems_of_listed(results, listed, sound)) or list(
            _problems_of_rows(results, listed, sound)
        )
    except UserError as error:
        yield f"{error}: {_AGAIN}"
    except _NOT_OURS:
        yield f"{path}, or a file that it names, holds what `thinwire collect` does not write: {_AGAIN}"


def _problems_of_listed(
    results: Path, listed: Mapping[str, str], sound: Mapping[str, SoundRecord]
) -> Iterator[str]:
    for name, digest in listed.items():
        if name not in sound:
            yield f"{results / SUMMARY} has a row of {results / name}, which is no sound record: {_AGAIN}"
        elif digests.stored_in_json(results / name) != digest:
            yield f"{results / SUMMARY} has a row of another record than {results / name} is now: {_AGAIN}"


def _problems_of_rows(
    results: Path, listed: Mapping[str, str], sound: Mapping[str, SoundRecord]
) -> Iterator[str]:
    """Make the rows once more from the records, and compare them."""
    names = list(listed)
    records = [sound[name] for name in names]
    rows = [collected_rows.row(each.cell, each.run) for each in records]
    made = collected_rows.summary(rows).splitlines()
    there = (results / SUMMARY).read_text(encoding="utf-8").splitlines()
    for name, expected, found in zip(["the columns", *names], made, there):
        if expected != found:
            yield f"{results / SUMMARY} has another row than follows from {name}: {_AGAIN}"
    if len(made) != len(there):
        yield f"{results / SUMMARY} has {len(there) - 1} rows of {len(names)} records: {_AGAIN}"
    for name, follow in ((CURVES, collected_rows.curves), (TRAFFIC, collected_rows.traffic)):
        if not pd.read_parquet(results / name).equals(follow(records)):
            yield f"{results / name} has other rows than follow from the records: {_AGAIN}"


def problems_of_reports(results: Path) -> Iterator[str]:
    """What is wrong with the tables and figures of suites, in a sentence each."""
    for path in sorted((results / "tables").rglob(DIGESTS)):
        suite = str(path.parent.relative_to(results / "tables"))
        again = f"make them again with {suggested_command('report', suite, results=results)}"
        try:
            content = digests.read_json(path)
            for name, digest in content["files"].items():
                if digests.of_file(results / name) != digest:
                    yield f"{results / name} was changed after it was made (its SHA-256 differs): {again}"
            if content["made_from"] != report_digests.made_from(results, suite):
                yield f"the tables and figures of {suite} were made from other records or times: {again}"
        except UserError as error:
            yield f"{error}: {again}"
        except _NOT_OURS:
            yield f"{path} holds what `thinwire report` does not write: {again}"
