"""An entry of `Method.equals_ssgd` for options with which a method is nearly synchronous SGD (SSGD)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from thinwire.errors import MethodError, quoted


@dataclass(frozen=True)
class InTheLimit:
    """Options with which a method is SSGD up to a tolerance, for example quantisation to 32 bits."""

    options: Mapping[str, object]
    """As in any other entry of `equals_ssgd`; the key `nodes` asks for that many nodes."""
    tolerance: float
    """The largest difference between a weight and SSGD's, after each step of the contract suite's run."""
    reason: str
    """Why the method does not come closer, in one clause."""

    def __post_init__(self) -> None:
        """Check the values.

        Raises:
            MethodError: one of them is wrong; the message says which.
        """
        where = f"equals_ssgd: InTheLimit({quoted(self.options)})"
        if not isinstance(self.options, dict):
            raise MethodError(f"{where}: its options must be a dictionary")
        number = isinstance(self.tolerance, int | float) and not isinstance(self.tolerance, bool)
        if not (number and 0 < self.tolerance < math.inf):
            raise MethodError(f"{where}: its tolerance must be a number above 0, not {self.tolerance!r}")
        if not (isinstance(self.reason, str) and self.reason.strip()):
            raise MethodError(f"{where}: it needs a reason why the method does not come closer to SSGD")
