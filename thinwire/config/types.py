"""What several files of this folder need: a plug-in with its options, and types of values in YAML files."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from thinwire.optim.recipe import Strict

# Far more than anybody runs: a typo gives an error message and does not fill the memory.
MOST_WORKERS = 100_000


@dataclass(frozen=True)
class Module:
    """A plug-in with its options, and the label that it has in paths and tables."""

    label: str
    use: str
    options: dict[str, object]


def _one_line(text: str) -> str:
    if not text.isprintable():
        raise ValueError("it must be one line, without tabs")
    return text


OneLine = Annotated[str, AfterValidator(_one_line)]


class Size(Strict):
    """A number of workers on a number of nodes."""

    workers: int = Field(ge=1, le=MOST_WORKERS, description="replicas")
    nodes: int = Field(default=1, ge=1, description="nodes over which they are spread evenly")

    @model_validator(mode="after")
    def _even(self) -> "Size":
        if self.workers % self.nodes:
            raise ValueError(f"{self.workers} workers cannot be spread evenly over {self.nodes} nodes")
        return self

    @property
    def label(self) -> str:
        return f"w{self.workers}" + (f"n{self.nodes}" if self.nodes > 1 else "")


def _size(value: object) -> object:
    """`4` means four workers on one node."""
    return {"workers": value} if isinstance(value, int) else value


NumberOfWorkers = Annotated[Size, BeforeValidator(_size)]
