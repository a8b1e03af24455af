"""The paper's text in LaTeX, written from what typst makes of it."""

import json
import shutil

import pytest

from thinwire.errors import UserError
from thinwire.paper import bibtex, latex, latex_text
from thinwire.paper.values import MINUS
from thinwire.plugins import ROOT

CONTENT = {
    "values": {"demo.dgc.saved": {"text": "78.9", "origin": "line-7"}},
    "origins": {},
    "figures": {"curve": {"path": "figures/curve.pdf", "source": "results/a_b.pdf"}},
    "missing": {"claims": "thinwire claims"},
}


@pytest.fixture
def written(tmp_path):
    """Write a text of typst as LaTeX."""
    shutil.copyfile(ROOT / "paper/lib.typ", tmp_path / "lib.typ")
    (tmp_path / "values.json").write_text(json.dumps(CONTENT))
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures/curve.pdf").write_bytes(b"not looked at")

    def write(text):
        (tmp_path / "text.typ").write_text(f'#import "lib.typ": *\n{text}')
        copied = '#metadata((name: "all", body: include "text.typ"))<section>'
        (tmp_path / "main.typ").write_text(copied)
        ((name, found),) = latex_text.sections(tmp_path / "main.typ", ["dgc", "daso"])
        assert name == "all"
        return found.strip()

    return write


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("*a* _b_ `--config x_y`", r"\textbf{a} \emph{b} \texttt{-{}-config x\_y}"),
        ("50 % \\& \\$ its author's", r"50 \% \& \$ its author's"),
        ("one\ntwo\n\nthree", "one two\n\nthree"),
        ("= A <a>\n@a says", "\\section{A}\\label{a}\n\\autoref{a} says"),
        ("== B", r"\subsection{B}"),
        ("known @dgc @daso", r"known \cite{dgc,daso}"),
        ("- a\n- b\nc", "\\begin{itemize}\n\\item a\n\\item b\n\\end{itemize}\n\nc"),
        ("/ a: b", "\\begin{description}\n\\item[{a}] b\n\\end{description}"),
        ('#value("demo.dgc.saved") %', r"\thinwirevalue{demo.dgc.saved} \%"),
        ('#if have("claims") [yes] else [run #made-by("claims")]', r"run \texttt{thinwire claims}"),
        ("$max(0, S - C_b) >= 2 M \\/ B$", r"$\operatorname{max}(0, S - C_{b}) \ge  2 M / B$"),
    ],
)
def test_a_text(written, text, expected):
    assert written(text) == expected


def test_a_figure_as_wide_as_the_page(written):
    text = written('#plot("curve", [Seen.], wide: true, width: 85%, label: <seen>)')
    assert text.splitlines() == [
        r"\begin{figure*}[t]",
        r"\centering",
        r"\includegraphics[width=0.85\linewidth]{figures/curve.pdf}",
        r"\caption{Seen. From \texttt{results/\allowbreak{}a\_\allowbreak{}b.\allowbreak{}pdf}.}\label{seen}",
        r"\end{figure*}",
    ]


def test_a_heading_of_two_rows(written):
    text = written(
        "#figure(data-table((auto, 1fr, 3fr), "
        "(table.cell(rowspan: 2)[*m*], table.cell(colspan: 2, align: center)[*c*], [ms], [ratio]), "
        "([a], [1], [2]), align: (left,) + (right,) * 2), caption: [C])"
    )
    assert r"{@{}l>{\hsize=0.5\hsize\raggedleft\arraybackslash}X>{\hsize=1.5\hsize\raggedleft" in text
    assert [line for line in text.splitlines() if line.endswith(r"\\")] == [
        r"\textbf{m} & \multicolumn{2}{c}{\textbf{c}} \\",
        r"& \textbf{ms} & \textbf{ratio} \\",
        r"a & 1 & 2 \\",
    ]


def test_a_table_outside_a_figure_may_break_between_pages(written):
    text = written("#data-table((1fr, 3fr), ([a], [b]), ([1], [2]), align: left)")
    assert r"p{\dimexpr 0.75\linewidth-2\tabcolsep}" in text
    assert r"\midrule \endhead" in text


@pytest.mark.parametrize(
    ("text", "element"), [("#rect[a]", "rect"), ("$1 / 2$", "frac"), ("$a^2$", "attach")]
)
def test_an_element_without_a_translation_is_one_sentence(written, text, element):
    with pytest.raises(
        UserError, match=rf"has the element '{element}', .* cannot write as LaTeX: avoid it, or"
    ):
        written(text)


def test_special_characters_are_escaped():
    assert latex.escaped(f"a_b 5 % {MINUS}1") == r"a\_b 5 \% \ensuremath{-}1"


def test_references_in_bibtex():
    references = {
        "daso": {
            "type": "article",
            "title": "DASO & Co",
            "author": "Coquelin et al.",
            "date": 2021,
            "url": "https://a_b",
        },
        "mp2": {
            "title": "MP2",
            "author": ["Liu", "Li"],
            "date": 2024,
            "serial-number": "110883",
            "parent": {"type": "periodical", "title": "Computer Networks", "volume": 255},
        },
    }
    assert bibtex.bibtex(references).splitlines() == [
        "@misc{daso,",
        "  author = {Coquelin and others},",
        r"  title = {{DASO \& Co}},",
        "  year = {2021},",
        r"  note = {\url{https://a_b}},",
        "}",
        "",
        "@article{mp2,",
        "  author = {Liu and Li},",
        "  title = {{MP2}},",
        "  journal = {Computer Networks},",
        "  volume = {255},",
        "  pages = {110883},",
        "  year = {2024},",
        "}",
    ]
