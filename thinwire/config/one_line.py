"""Text that stands in one line of a table or of a log."""

from typing import Annotated

from pydantic import AfterValidator


def _one_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError("it must be one line, without tabs")
    return text


OneLine = Annotated[str, AfterValidator(_one_line)]
