"""Checks that the tables and figures of suites were made from their records."""

from collections.abc import Iterator
from pathlib import Path

from thinwire import digests
from thinwire.errors import UserError
from thinwire.report import report_digests
from thinwire.report.result_names import DIGESTS
from thinwire.suggested_command import suggested_command
from thinwire.verify.collected_files import NOT_OURS


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
        except NOT_OURS:
            yield f"{path} holds what `thinwire report` does not write: {again}"
