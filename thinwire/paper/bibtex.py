"""The references in BibTeX, from Hayagriva's format."""

from collections.abc import Mapping
from typing import Any

from thinwire.paper.latex import escaped

# For each type of the publication around a source: the type of the entry, and the field with its title.
_AROUND = {"periodical": ("article", "journal"), "proceedings": ("inproceedings", "booktitle")}


def bibtex(references: Mapping[str, Mapping[str, Any]]) -> str:
    """All entries.

    Args:
        references: the content of references.yaml.
    """
    return "\n".join(_entry(key, reference) for key, reference in references.items())


def _entry(key: str, reference: Mapping[str, Any]) -> str:
    authors, around = reference["author"], reference.get("parent", {})
    kind, place = _AROUND.get(around.get("type"), ("misc", "howpublished"))
    note = [escaped(reference["note"])] if "note" in reference else []
    if "url" in reference:
        note.append(rf"\url{{{reference['url']}}}")
    fields = {
        "author": escaped(" and ".join([authors] if isinstance(authors, str) else authors)),
        "title": f"{{{escaped(reference['title'])}}}",  # keeps its capitals
        place: escaped(around.get("title", reference.get("organization", ""))),
        "volume": escaped(str(around.get("volume", ""))),
        "number": str(around.get("issue", "")),
        "pages": reference.get("serial-number", ""),
        "year": str(reference["date"]),
        "note": "; ".join(note),
    }
    lines = [
        f"  {name} = {{{content.replace(' et al.', ' and others')}}},"
        for name, content in fields.items()
        if content
    ]
    return "\n".join((f"@{kind}{{{key},", *lines, "}\n"))
