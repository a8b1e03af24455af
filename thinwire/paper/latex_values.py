"""The values for LaTeX: a macro prints each by its name."""

import re

from thinwire.paper.latex import escaped
from thinwire.paper.values import Collected

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


def named(text: str) -> list[str]:
    """The values that a text in LaTeX names, each once."""
    return list(dict.fromkeys(re.findall(r"\\thinwirevalue\{([^}]*)\}", text)))
