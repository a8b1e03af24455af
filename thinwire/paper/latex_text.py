"""The text of the paper in LaTeX, written from the elements that typst has made of it.

So the text exists once, in paper/sections/, and typst evaluates its conditions, loops and values.
"""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import typst

from thinwire.paper.latex import Element, escaped, no_latex
from thinwire.paper.latex_formula import formula
from thinwire.paper.latex_table import fixed_table, long_table

_HEADINGS = {1: "section", 2: "subsection", 3: "subsubsection"}
_SOME_CITATIONS = re.compile(r"\\cite\{\w+\}(?: \\cite\{\w+\})+")


def sections(main: Path, references: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The name of each section of the text, with its LaTeX.

    Args:
        main: the main file, in which the function `section` has copied each section.
        references: the keys of the sources that may be cited.

    Raises:
        UserError: the text has an element that has no translation.
    """
    found = typst.query(main, "<section>", field="value", root=main.parent, ignore_system_fonts=True)
    writer = _Writer(frozenset(references))
    for section in json.loads(found):
        lines = re.sub(r" *\n *", "\n", writer.text(section["body"]).strip())
        yield section["name"], re.sub(r"\n{3,}", "\n\n", lines) + "\n"


class _Writer:
    """Writes elements as LaTeX. The method for an element has the name of the element's function."""

    def __init__(self, references: frozenset[str]) -> None:
        self.references = references

    def text(self, element: Element) -> str:
        """An element of the text."""
        write = getattr(self, f"_{element['func']}", None)
        if write is None:
            raise no_latex(element)
        return str(write(element))

    def _sequence(self, it: Element) -> str:
        written, environment = "", None
        for child in it["children"]:
            wanted = _environment(child)
            if environment and wanted != environment and child["func"] not in ("space", "parbreak"):
                written += f"\\end{{{environment}}}\n\n"
                environment = None
            if wanted and environment is None:
                written += f"\\begin{{{wanted}}}\n"
                environment = wanted
            written += self.text(child)
        written += f"\\end{{{environment}}}\n\n" if environment else ""
        return _SOME_CITATIONS.sub(_one_citation, written)

    def _styled(self, it: Element) -> str:
        return self.text(it["child"])

    def _text(self, it: Element) -> str:
        return escaped(it["text"])

    _symbol = _text

    def _space(self, it: Element) -> str:
        return " "

    def _parbreak(self, it: Element) -> str:
        return "\n\n"

    def _linebreak(self, it: Element) -> str:
        return r"\newline "  # also within a cell of a table

    def _smartquote(self, it: Element) -> str:
        return '"' if it["double"] else "'"

    def _strong(self, it: Element) -> str:
        return rf"\textbf{{{self.text(it['body'])}}}"

    def _emph(self, it: Element) -> str:
        return rf"\emph{{{self.text(it['body'])}}}"

    def _raw(self, it: Element) -> str:
        # Two hyphens would become a dash.
        code = escaped(it["text"]).replace("--", "-{}-")
        return rf"\texttt{{{code}}}"

    def _heading(self, it: Element) -> str:
        return f"\n\\{_HEADINGS[it['depth']]}{{{self.text(it['body'])}}}{_label(it)}\n"

    def _item(self, it: Element) -> str:
        if "term" in it:
            return f"\\item[{{{self.text(it['term'])}}}] {self.text(it['description'])}\n"
        return f"\\item {self.text(it['body'])}\n"

    def _metadata(self, it: Element) -> str:
        """A value of the results: its name is beside the link that shows it."""
        return rf"\thinwirevalue{{{it['value']['name']}}}"

    def _link(self, it: Element) -> str:
        return ""  # the macro of the value makes the link

    def _ref(self, it: Element) -> str:
        key = _key(it["target"])
        return rf"\cite{{{key}}}" if key in self.references else rf"\autoref{{{key}}}"

    def _equation(self, it: Element) -> str:
        in_latex = formula(it["body"])
        return f"\n\\[{in_latex}\\]\n" if it["block"] else f"${in_latex}$"

    def _figure(self, it: Element) -> str:
        body, star = it["body"], "*" if it.get("scope") == "parent" else ""
        while body["func"] == "styled":
            body = body["child"]
        if body["func"] == "table":
            kind, content = "table", fixed_table(body, self.text)
        else:
            kind, content = "figure", self.text(body)
        caption = rf"\caption{{{self.text(it['caption']['body'])}}}{_label(it)}"
        return f"\n\\begin{{{kind}{star}}}[t]\n\\centering\n{content}\n{caption}\n\\end{{{kind}{star}}}\n"

    def _image(self, it: Element) -> str:
        share = float(it["width"].partition("%")[0]) / 100
        return rf"\includegraphics[width={share:g}\linewidth]{{{it['source']}}}"

    def _table(self, it: Element) -> str:
        return long_table(it, self.text)


def _environment(it: Element) -> str | None:
    """The environment of LaTeX around an element and its neighbours of the same kind."""
    if it["func"] != "item":
        return None
    return "description" if "term" in it else "itemize"


def _one_citation(match: re.Match[str]) -> str:
    keys = re.findall(r"{(\w+)}", match[0])
    return rf"\cite{{{','.join(keys)}}}"


def _key(label: str) -> str:
    return label.removeprefix("<").removesuffix(">")


def _label(it: Element) -> str:
    return rf"\label{{{_key(it['label'])}}}" if "label" in it else ""
