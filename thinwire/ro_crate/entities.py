"""The pieces of which a crate's JSON-LD consists."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from thinwire import digests

Entity = dict[str, Any]

METADATA = "ro-crate-metadata.json"
# Terms of the Workflow Run RO-Crate profiles that the context of RO-Crate 1.1 lacks.
_TERMS = "https://w3id.org/ro/terms/workflow-run#"
CONTEXT = [
    "https://w3id.org/ro/crate/1.1/context",
    {"sha256": f"{_TERMS}sha256", "environment": f"{_TERMS}environment"},
]
_FORMATS = {
    ".csv": "text/csv",
    ".html": "text/html",
    ".json": "application/json",
    ".md": "text/markdown",
    ".parquet": "application/vnd.apache.parquet",
    ".pdf": "application/pdf",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".yaml": "application/yaml",
}


def ref(identifier: str) -> dict[str, str]:
    """A reference to an entity."""
    return {"@id": identifier}


def refs(identifiers: Iterable[str]) -> list[dict[str, str]] | dict[str, str]:
    """References to entities, each once, in their order; one alone is in no list, as RO-Crate recommends."""
    made = [ref(identifier) for identifier in dict.fromkeys(identifiers)]
    return made[0] if len(made) == 1 else made


def path_id(path: Path, crate: Path) -> str:
    """The identifier of a file or a folder in the crate."""
    return quote(str(path.relative_to(crate))) + "/" * path.is_dir()


def file_entity(path: Path, crate: Path, name: str) -> Entity:
    """A file in the crate, with its digest.

    Raises:
        UserError: it is missing or cannot be read.
    """
    return {
        "@id": path_id(path, crate),
        "@type": "File",
        "name": name,
        "encodingFormat": _FORMATS.get(path.suffix, "text/plain"),
        "sha256": digests.of_file(path),
    }


def action(identifier: str, name: str, description: str, instrument: str, **more: Any) -> Entity:
    """Something that was done; what is not known is left out, the agent always."""
    known = {key: value for key, value in more.items() if value}
    return {
        "@id": identifier,
        "@type": "CreateAction",
        "name": name,
        "description": description,
        "instrument": ref(instrument),
        **known,
    }
