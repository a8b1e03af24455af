"""Formulas of the paper in LaTeX."""

from thinwire.paper.latex import Element, no_latex
from thinwire.paper.values import MINUS

_SYMBOLS = {"\N{GREATER-THAN OR EQUAL TO}": r"\ge ", MINUS: "-"}


def formula(element: Element) -> str:
    """What stands between the dollar signs.

    Args:
        element: the body of an equation, or an element in it.

    Raises:
        UserError: the element has no translation.
    """
    match element["func"]:
        case "sequence":
            return "".join(map(formula, element["children"]))
        case "lr":
            return formula(element["body"])
        case "op":
            return rf"\operatorname{{{formula(element['text'])}}}"
        case "attach" if set(element) == {"func", "base", "b"}:
            return f"{formula(element['base'])}_{{{formula(element['b'])}}}"
        case "space":
            return " "
        case "text" | "symbol":
            return _SYMBOLS.get(element["text"], str(element["text"]))
        case _:
            raise no_latex(element)
