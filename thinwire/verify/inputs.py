"""Checks what runs have read: data sets and preparations."""

from collections.abc import Iterator
from pathlib import Path

from thinwire import digests
from thinwire.data.dataset import MANIFEST
from thinwire.errors import UserError
from thinwire.train.preparation_record import PREPARED, read_sound


def problems_of_data(results: Path) -> Iterator[str]:
    """What is wrong with the data sets that were laid out, in a sentence each."""
    for manifest in sorted((results / "data").glob(f"*/{MANIFEST}")):
        folder = manifest.parent
        again = f"delete {folder} and start the pipeline again"
        try:
            entries = digests.read_json(manifest)["files"]
            digests.require_files(folder, {name: entry["sha256"] for name, entry in entries.items()})
        except UserError as error:
            yield f"{error}: {again}"
        except (AttributeError, KeyError, TypeError):
            yield f"{manifest} is not the manifest of a data set: {again}"


def problems_of_preparations(results: Path) -> Iterator[str]:
    """What is wrong with the preparations, in a sentence each."""
    for path in sorted((results / "prepared").rglob(PREPARED)):
        try:
            read_sound(path.parent, f"delete {path.parent} and start the pipeline again")
        except UserError as error:
            yield str(error)
