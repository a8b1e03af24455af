"""The publications behind a suite, in BibTeX.

An entry of `paper/references.yaml` belongs to the method, data set or model whose name it has. It also does
if the docstring has its title or its number at arXiv. A data set without one is cited by its source.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from thinwire import plugins
from thinwire.config import yaml_file
from thinwire.config.expand import cells
from thinwire.plugins import Plugin
from thinwire.publish.paper.declarations import SOURCES

_NUMBER = re.compile(r"arXiv (\d{4}\.\d{4,5})")
_NOTE = "% Compare before you submit, because no public page confirms them: "
_AND_OTHERS = " et al."


def bibtex(suite: str) -> str:
    """The entries for a suite, in the order of its methods, data sets and models.

    Raises:
        UserError: there is no such suite, or its file has errors.
    """
    references: Mapping[str, Any] = yaml_file.mapping(
        SOURCES / "references.yaml", "a list of references", "docs/paper.md"
    )
    every = cells(suite)
    used = [("method", cell.method.use) for cell in every]
    used += [("dataset", cell.data.use) for cell in every] + [("model", cell.model.use) for cell in every]
    plugs = [plugins.get(kind, name) for kind, name in dict.fromkeys(used)]
    entries = dict.fromkeys(entry for plugin in plugs for entry in _entries(plugin, references))
    doubtful = [key for key, entry in references.items() if entry.get("unconfirmed")]
    unconfirmed = sorted(key for key in doubtful if any(f"{{{key},\n" in entry for entry in entries))
    return "\n\n".join([*([_NOTE + ", ".join(unconfirmed)] if unconfirmed else []), *entries])


def _entries(plugin: Plugin, references: Mapping[str, Any]) -> Iterator[str]:
    """What a plug-in is from."""
    text = " ".join(plugin.docstring.split())
    urls = [f"https://arxiv.org/abs/{number}" for number in _NUMBER.findall(text)]
    named = [
        key
        for key, entry in references.items()
        if key == plugin.name or entry.get("url") in urls or f'"{entry["title"]}"' in text
    ]
    yield from (_entry(key, references[key]) for key in named)
    if not named and plugin.kind == "dataset":
        found = plugin.load()
        title = plugin.title.partition(":")[0]
        fields = {"title": title, "howpublished": found.source, "note": found.licence}
        yield _written("misc", plugin.name, fields)


def _entry(key: str, entry: Mapping[str, Any]) -> str:
    """A reference in Hayagriva's format as one of BibTeX."""
    parent = entry.get("parent", {})
    in_journal, in_proceedings = parent.get("type") == "periodical", parent.get("type") == "proceedings"
    number = str(entry.get("url", "")).partition("arxiv.org/abs/")[2]
    kind = "article" if in_journal else "inproceedings" if in_proceedings else "misc"
    fields = {
        "title": entry["title"],
        "author": _authors(entry.get("author", [])),
        "year": entry["date"],
        "journal": parent.get("title") if in_journal else None,
        "booktitle": parent.get("title") if in_proceedings else None,
        "volume": parent.get("volume"),
        "number": parent.get("issue"),
        "school": entry.get("publisher"),
        "eprint": number,
        "archiveprefix": "arXiv" if number else None,
        "url": entry.get("url"),
        "note": entry.get("note"),
    }
    return _written("phdthesis" if entry["type"] == "thesis" else kind, key, fields)


def _authors(names: str | list[str]) -> str:
    """The authors, of whom a text has one or the first."""
    if isinstance(names, str) and names.endswith(_AND_OTHERS):
        names = [names.removesuffix(_AND_OTHERS), "others"]
    return " and ".join([names] if isinstance(names, str) else names)


def _written(kind: str, key: str, fields: Mapping[str, object]) -> str:
    """An entry, without empty fields; braces keep the case of titles."""
    lines = [f"  {name} = {{{value}}}," for name, value in fields.items() if value]
    lines[0] = f"  title = {{{{{fields['title']}}}}},"
    return "\n".join([f"@{kind}{{{key},", *lines, "}"])
