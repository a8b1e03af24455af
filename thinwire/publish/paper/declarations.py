"""What paper/ declares: values, figures, and the publications behind a suite, also in BibTeX."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from string import Formatter
from typing import Any, Literal, TypedDict, cast

import pandas as pd
from pydantic import Field

from thinwire import plugins
from thinwire.base.errors import UserError
from thinwire.base.options import Strict
from thinwire.config import yaml_file
from thinwire.config.expand import cells
from thinwire.plugins import ROOT, Plugin, show

SOURCES = ROOT / "paper"
VALUES = "values.yaml"
# The methods whose claims the paper judges; it prints where each of their parts comes from.
JUDGED = ("multi_step_delay", "hylo", "mp2", "hsgd", "daso")


class File(Strict):
    """A file that values or a figure come from."""

    path: str = Field(description="`results/...` is in the folder of results, others are in the project")
    made_by: str = Field(description="the command that makes it")
    suite: str | None = Field(default=None, description="of whose runs it has rows; None: of no runs")
    required: bool = Field(default=False, description="is there no paper without it?")

    def on_disk(self, results: Path) -> Path:
        """Where it is, with this folder of results."""
        first, _, rest = self.path.partition("/")
        return results / rest if first == "results" else ROOT / self.path


class Declared(Strict):
    """A value, or one for each content of the columns in braces in its name."""

    file: str = Field(description="key of `files`")
    where: dict[str, str | int | float | bool] = Field(default={}, description="contents of columns")
    column: str = Field(description="a column, or an expression of columns as pandas evaluates it")
    take: Literal["only", "count", "nunique", "min", "max", "sum", "mean", "median", "p95"] = Field(
        default="only", description="of the rows; only: they must agree"
    )
    digits: int = Field(default=0, ge=0, le=6, description="after the point")


class Published(Strict):
    """A number that a publication gives."""

    text: str
    of: str = Field(description="key in references.yaml")
    place: str = Field(description="where in the publication")


class Bars(Strict):
    """A figure with a bar for each of some values."""

    file: str = Field(description="key of `files`: the file that the values come from")
    axis: str = Field(description="what the length of a bar means, with its unit")
    bars: dict[str, str] = Field(min_length=1, description="the name of a value for each label, from the top")


class Declarations(Strict):
    """The content of `paper/values.yaml`."""

    files: dict[str, File]
    figures: dict[str, File]
    bars: dict[str, Bars]
    published: dict[str, Published]
    values: dict[str, Declared]


def read(path: Path = SOURCES / VALUES) -> Declarations:
    """Read and validate the declarations; one `UserError` lists all errors of the file."""
    return yaml_file.read(path, Declarations, "the paper's list of values", "docs/paper.md")


# Labels are read as text, even those that look like numbers.
_TEXTS = ("suite", "dataset", "model", "method", "kind", "cluster", "against", "id", "verdict")


def read_rows(path: Path, made_by: str) -> pd.DataFrame:
    """The rows of a CSV file, by the numbers of their lines; a UserError if there is none."""
    try:
        rows = pd.read_csv(path, dtype=dict.fromkeys(_TEXTS, "string"), keep_default_na=False, na_values=[""])
    except (OSError, ValueError) as error:
        raise UserError(f"{show(path)} cannot be read ({error}): run `{made_by}` again") from None
    if rows.empty:
        raise UserError(f"{show(path)} has no row: run `{made_by}` again")
    return rows.set_axis(range(2, len(rows) + 2))


def groups(name: str, declared: Declared, rows: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """The name and the rows of each value that is declared; a `UserError` if a column is missing."""
    placeholders = [field for _, field, _, _ in Formatter().parse(name) if field]
    for column in (*declared.where, *placeholders):
        if column not in rows:
            raise UserError(f"value {name!r} in paper/values.yaml: its file has no column {column!r}")
    for column, content in declared.where.items():
        rows = rows[rows[column] == content]
    if not placeholders:
        yield name, rows
        return
    for contents, group in rows.groupby(placeholders, sort=False, dropna=False):
        yield name.format_map(dict(zip(placeholders, map(_part, contents)))), group


def _part(content: Any) -> str:
    """A content of a column as a part of a name."""
    if pd.isna(content):
        return "none"
    return f"{content:g}" if isinstance(content, float) else str(content)


def taken(name: str, declared: Declared, rows: pd.DataFrame) -> str | float:
    """The value of these rows.

    Raises:
        UserError: there is no row, the rows disagree, the expression is none, or its values have no `take`.
    """
    where = f"value {name!r} in paper/values.yaml"
    if rows.empty and declared.take not in ("count", "nunique"):
        raise UserError(f"{where}: no row of its file has {_words(declared.where)}")
    try:
        contents = pd.Series(rows[declared.column] if declared.column in rows else rows.eval(declared.column))
    except (KeyError, NameError, NotImplementedError, SyntaxError, TypeError, ValueError) as error:
        raise UserError(f"{where}: {declared.column!r} is no expression of its columns ({error})") from None
    if declared.take == "only":
        different = contents.unique()
        if len(different) > 1:
            raise UserError(f"{where}: {len(rows)} rows disagree; name the row, or say what to take")
        return different[0]
    try:
        return (
            float(contents.quantile(0.95)) if declared.take == "p95" else getattr(contents, declared.take)()
        )
    except (NotImplementedError, TypeError, ValueError):
        raise UserError(f"{where}: {declared.column!r} is text, which has no {declared.take}") from None


def _words(where: Mapping[str, object]) -> str:
    return ", ".join(f"{column} = {content}" for column, content in where.items())


_NUMBER = re.compile(r"arXiv (\d{4}\.\d{4,5})")
_NOTE = "% Compare before you submit, because no public page confirms them: "
_AND_OTHERS = " et al."


class Reference(TypedDict, total=False):
    """An entry of `paper/references.yaml`, in Hayagriva's format; all have `type`, `title` and `date`."""

    type: str
    title: str
    author: str | list[str]
    date: str | int
    parent: dict[str, str]
    publisher: str
    url: str
    note: str
    unconfirmed: bool


def bibtex(suite: str) -> str:
    """The entries for a suite, in the order of its methods, data sets and models; errors as of `cells`.

    An entry of `paper/references.yaml` belongs to the method, data set or model whose name it has. It also
    does if the docstring has its title or its number at arXiv. A data set without one is cited by its source.
    """
    content = yaml_file.mapping(SOURCES / "references.yaml", "a list of references", "docs/paper.md")
    references = cast(Mapping[str, Reference], content)
    every = cells(suite)
    used = [("method", cell.method.use) for cell in every]
    used += [("dataset", cell.data.use) for cell in every] + [("model", cell.model.use) for cell in every]
    plugs = [plugins.get(kind, name) for kind, name in dict.fromkeys(used)]
    entries = dict.fromkeys(entry for plugin in plugs for entry in _entries(plugin, references))
    doubtful = [key for key, entry in references.items() if entry.get("unconfirmed")]
    unconfirmed = sorted(key for key in doubtful if any(f"{{{key},\n" in entry for entry in entries))
    return "\n\n".join([*([_NOTE + ", ".join(unconfirmed)] if unconfirmed else []), *entries])


def _entries(plugin: Plugin, references: Mapping[str, Reference]) -> Iterator[str]:
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


def _entry(key: str, entry: Reference) -> str:
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
