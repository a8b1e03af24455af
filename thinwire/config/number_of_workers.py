"""Numbers of workers and nodes in a suite, and their label, such as `w8n2`."""

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from thinwire.optim.recipe import Strict

# Far more than anybody runs: a typo gives an error message and does not fill the memory.
MOST_WORKERS = 100_000


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


def _size(value: Any) -> Any:
    """`4` means four workers on one node."""
    return {"workers": value} if isinstance(value, int) else value


NumberOfWorkers = Annotated[Size, BeforeValidator(_size)]
