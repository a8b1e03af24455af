"""How training inputs get to the workers: the values of the keys `reading` and `partition` of a recipe."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BeforeValidator

from thinwire.base.errors import quoted
from thinwire.base.names import nearest

READINGS = ("random", "strided", "contiguous")
PARTITIONS = ("iid", "natural")
# Beyond these, shares are whole labels or equal in all digits.
LEAST_ALPHA, MOST_ALPHA = 1e-6, 1e6


def _reading(value: object) -> object:
    """Refuse an unknown way of reading with the nearest one."""
    if isinstance(value, str) and value not in READINGS:
        raise ValueError(
            f"there is no reading {quoted(value)}: there are {', '.join(READINGS)}, and the nearest is "
            f"{nearest(value, READINGS)}"
        )
    return value


Reading = Annotated[Literal["random", "strided", "contiguous"], BeforeValidator(_reading)]


@dataclass(frozen=True)
class Dirichlet:
    """Each worker's shares of labels come from a Dirichlet distribution."""

    dirichlet: float
    """Its concentration alpha: the smaller, the more the workers differ."""

    def __str__(self) -> str:
        return f"dirichlet {self.dirichlet:g}"


def _partition(value: object) -> object:
    """Refuse an unknown partition, or an alpha out of range, in one sentence."""
    if isinstance(value, Mapping) and set(value) == {"dirichlet"}:
        alpha = value["dirichlet"]
        is_number = isinstance(alpha, int | float) and not isinstance(alpha, bool)
        if not (is_number and LEAST_ALPHA <= alpha <= MOST_ALPHA):
            raise ValueError(
                f"dirichlet needs a number above 0, from {LEAST_ALPHA:g} to {MOST_ALPHA:g}, not "
                f"{quoted(alpha)}"
            )
        return Dirichlet(float(alpha))
    if isinstance(value, Dirichlet) or (isinstance(value, str) and value in PARTITIONS):
        return value
    raise ValueError(f"a partition is iid, natural or {{dirichlet: alpha}}, not {quoted(value)}")


PartitionKind = Annotated[Literal["iid", "natural"] | Dirichlet, BeforeValidator(_partition)]
