"""What a method declares of itself: what it needs, where its steps come from, and when it equals SSGD."""

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from thinwire.base.errors import MethodError, quoted
from thinwire.base.options import Option, describe


@dataclass(frozen=True)
class Needs:
    """What a method needs; cells that do not provide it are skipped."""

    workers: int = 1
    """The smallest number of workers."""
    nodes: int = 1
    """The smallest number of nodes."""
    optimizers: tuple[str, ...] = ()
    """The names of the recipe's optimizers with which the method works; empty: all of them."""

    def works_with(self, optimizer: str) -> bool:
        """Does the method work with the recipe's optimizer of this name?"""
        return not self.optimizers or optimizer in self.optimizers

    def optimizer_without_sgd(self) -> str | None:
        """Return the first optimizer that a method without SGD names; None if it works with SGD."""
        return None if self.works_with("sgd") else self.optimizers[0]


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
        """Check the values; a `MethodError` says which one is wrong."""
        where = f"equals_ssgd: InTheLimit({quoted(self.options)})"
        if not isinstance(self.options, dict):
            raise MethodError(f"{where}: its options must be a dictionary")
        number = isinstance(self.tolerance, int | float) and not isinstance(self.tolerance, bool)
        if not (number and 0 < self.tolerance < math.inf):
            raise MethodError(f"{where}: its tolerance must be a number above 0, not {self.tolerance!r}")
        if not (isinstance(self.reason, str) and self.reason.strip()):
            raise MethodError(f"{where}: it needs a reason why the method does not come closer to SSGD")


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
        """Check the texts; a `MethodError` says which one is wrong."""
        place = f"provenance: Part({quoted(self.what)})"
        for name, text in (("what is done", self.what), ("where it says so", self.where)):
            if not (isinstance(text, str) and text.strip()):
                raise MethodError(f"{place}: it needs a text that says {name}")
        if self.source not in tuple(SOURCES):
            words = ", ".join(SOURCES)
            raise MethodError(f"{place}: its source is {quoted(self.source)}; write one of: {words}")


@dataclass(frozen=True)
class AboutMethod:
    """A method, as its module describes it."""

    name: str
    path: str
    """Of its module, relative to the project."""
    docstring: str
    """Its source, its update rule, and its deviations from the publication."""
    options: list[Option]
    needs: list[str]
    """A clause for each thing that it needs of a run."""
    equals_ssgd: list[str]
    """A clause for each set of options with which it is synchronous SGD."""
    ablations: list[str]
    """A clause for each set of options with which it is an ablation."""
    provenance: tuple[Part, ...]
    """Where each of its steps comes from; empty: its module does not say so."""


def about(method: Any, name: str, path: str, prepares: bool) -> AboutMethod:
    """Say what a method's class and module say of it.

    Args:
        method: its class.
        name: of its module.
        path: of its module, as it is shown.
        prepares: whether it defines `prepare`.
    """
    needs = []
    if method.needs.optimizers:
        needs.append(f"needs an optimizer that is {' or '.join(method.needs.optimizers)}")
    for what, least in (("workers", method.needs.workers), ("nodes", method.needs.nodes)):
        if least > 1:
            needs.append(f"needs at least {least} {what}")
    if prepares:
        needs.append("needs a preparation, its own or that of another cell (`prepare_from` in a suite)")
    return AboutMethod(
        name,
        path,
        (sys.modules[method.__module__].__doc__ or "(no docstring)").strip(),
        describe(method),
        needs,
        [_is_ssgd(entry) for entry in method.equals_ssgd],
        [f"is an ablation, and no baseline, with {options}" for options in method.ablations],
        method.provenance,
    )


def _is_ssgd(entry: object) -> str:
    if isinstance(entry, InTheLimit):
        how = f"in the limit with {entry.options or 'its defaults'}, within {entry.tolerance:g}"
        return f"is SSGD {how}: {entry.reason}"
    return f"is SSGD with {entry or 'its defaults'}"
