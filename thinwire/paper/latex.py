"""What all parts of the paper in LaTeX share: special characters, and the elements of the text."""

import re
from typing import Any

from thinwire.errors import UserError
from thinwire.paper.values import MINUS

# An element of the text as `typst query` prints it: its fields, and the name of its function under `func`.
Element = dict[str, Any]
BREAK = "\N{ZERO WIDTH SPACE}"  # where a line may break

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    **{character: f"\\{character}" for character in "#$%&_"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "`": r"\textasciigrave{}",
    MINUS: r"\ensuremath{-}",
    "±": r"\ensuremath{\pm}",
    BREAK: r"\allowbreak{}",
}


def no_latex(element: Element) -> UserError:
    """The error about an element of the text that has no translation."""
    return UserError(
        f"paper/sections/ has the element {element['func']!r}, which thinwire/paper/ cannot write as LaTeX: "
        "avoid it, or add its translation to latex_text.py or latex_formula.py"
    )


def escaped(text: str) -> str:
    """The text as LaTeX prints it."""
    return "".join(_SPECIAL.get(character, character) for character in text)


def breakable(text: str) -> str:
    """The text in typewriter letters, which may break after points, strokes and underscores."""
    with_breaks = re.sub("[./_]", lambda match: match[0] + BREAK, text)
    return rf"\texttt{{{escaped(with_breaks)}}}"
