"""An entry of `Method.provenance`: where a step of a method comes from."""

from dataclasses import dataclass
from typing import Literal

from thinwire.errors import MethodError, quoted

Source = Literal["certain", "from code", "related work", "ours"]
SOURCES: dict[Source, str] = {
    "certain": "the publication says so, as far as its text could be read",
    "from code": "the code of the publication's authors does so",
    "related work": "another publication, or its code, does so",
    "ours": "nothing that could be read decides it, or we decided otherwise",
}


@dataclass(frozen=True)
class Part:
    """A step of a method, or another choice that its results depend on."""

    what: str
    """What is done, in a few words."""
    source: Source
    """Who says so."""
    where: str
    """Where it says so, or why we chose it, in one clause."""

    def __post_init__(self) -> None:
        """Check the texts.

        Raises:
            MethodError: one of them is wrong; the message says which.
        """
        place = f"provenance: Part({quoted(self.what)})"
        for name, text in (("what is done", self.what), ("where it says so", self.where)):
            if not (isinstance(text, str) and text.strip()):
                raise MethodError(f"{place}: it needs a text that says {name}")
        if self.source not in tuple(SOURCES):
            words = ", ".join(SOURCES)
            raise MethodError(f"{place}: its source is {quoted(self.source)}; write one of: {words}")
