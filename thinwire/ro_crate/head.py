"""The first entities of a crate: the description itself, the root, and what they refer to."""

from collections.abc import Iterable, Sequence

from thinwire.ro_crate.entities import METADATA, Entity, ref, refs

_RO_CRATE = "https://w3id.org/ro/crate/1.1"
_WORKFLOW_RO_CRATE = "https://w3id.org/workflowhub/workflow-ro-crate/1.0"
# The fullest profile comes last, and contains those before it.
_PROFILES = {
    _WORKFLOW_RO_CRATE: ("Workflow RO-Crate", "1.0"),
    "https://w3id.org/ro/wfrun/process/0.5": ("Process Run Crate", "0.5"),
    "https://w3id.org/ro/wfrun/workflow/0.5": ("Workflow Run Crate", "0.5"),
    "https://w3id.org/ro/wfrun/provenance/0.5": ("Provenance Run Crate", "0.5"),
}
_LICENCE = "https://spdx.org/licenses/Apache-2.0"


def head(
    suites: Iterable[str], published: str, parts: Sequence[str], actions: Sequence[str], workflow: str
) -> list[Entity]:
    """The description, the root, the profiles and the licence.

    Args:
        suites: their names.
        published: the time of the last run, in ISO 8601.
        parts: the identifiers of files and folders.
        actions: the identifiers of all that was done.
        workflow: the identifier of the workflow.
    """
    names = ", ".join(suites)
    return [
        {
            "@id": METADATA,
            "@type": "CreativeWork",
            "conformsTo": refs([_RO_CRATE, _WORKFLOW_RO_CRATE]),
            "about": ref("./"),
        },
        {
            "@id": "./",
            "@type": "Dataset",
            "name": f"Results of thinwire: {names}",
            "description": "Records of training runs whose workers send little data to each other, with the "
            "tables and figures that were made of them.",
            "datePublished": published,
            "license": ref(_LICENCE),
            "conformsTo": refs(_PROFILES),
            "mainEntity": ref(workflow),
            "hasPart": refs(parts),
            "mentions": refs(actions),
        },
        *(
            {"@id": url, "@type": "CreativeWork", "name": name, "version": version}
            for url, (name, version) in _PROFILES.items()
        ),
        {
            "@id": _LICENCE,
            "@type": "CreativeWork",
            "name": "Apache License 2.0",
            "description": "Data sets have licences of their own.",
        },
    ]
