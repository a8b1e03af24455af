"""The values for LaTeX: a macro for each, and the table of their origins."""

from thinwire.paper.origins import Origin
from thinwire.paper.values import MINUS, Collected

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    **{character: f"\\{character}" for character in "#$%&_"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    MINUS: r"\ensuremath{-}",
    "±": r"\ensuremath{\pm}",
}

_MACROS = r"""% Made by `thinwire paper`. \thinwirevalue{NAME} prints the value of this name (docs/paper.md).
\makeatletter
\newcommand{\thinwire@define}[3]{%
  \expandafter\def\csname thinwire@text@#1\endcsname{#2}%
  \expandafter\def\csname thinwire@origin@#1\endcsname{#3}}
\DeclareRobustCommand{\thinwirevalue}[1]{%
  \ifcsname thinwire@text@#1\endcsname
    \hyperlink{\csname thinwire@origin@#1\endcsname}{\csname thinwire@text@#1\endcsname}%
  \else
    \PackageError{thinwire}{there is no value #1: declare it in paper/values.yaml}{}%
  \fi}
"""


def values(collected: Collected) -> str:
    r"""The definitions of all values, for `\thinwirevalue`."""
    defined = (
        f"\\thinwire@define{{{name}}}{{{escaped(value.text)}}}{{{value.origin}}}"
        for name, value in collected.values.items()
    )
    return "\n".join((_MACROS + "\n".join(defined), r"\makeatother", ""))


def origins(collected: Collected) -> str:
    """The rows of the table of origins: file and lines, and the runs behind them with their links."""
    return "\n".join((*map(_row, collected.origins.values()), ""))


def escaped(text: str) -> str:
    """The text as LaTeX prints it."""
    return "".join(_SPECIAL.get(character, character) for character in text)


def _row(origin: Origin) -> str:
    where = escaped(", ".join(filter(None, (origin.file, origin.rows))))
    runs = [
        rf"\href{{index.html\#{run.anchor}}}{{{escaped(run.folder)}}} {run.sha256[:12]}"
        for run in origin.runs
    ]
    behind = r"\newline ".join((*runs, escaped(origin.note)) if origin.note else runs)
    return rf"\hypertarget{{{origin.key}}}{{{where}}} & {behind} \\"
