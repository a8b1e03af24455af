"""What can be said about a method from its module alone: its docstring, its options and its limits."""

import sys
from dataclasses import dataclass

from thinwire import plugins
from thinwire.api.declarations import InTheLimit, Part
from thinwire.base.options import Option, describe


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


def about_method(name: str) -> AboutMethod:
    """Read the module of a method.

    Raises:
        UserError: there is no such method, or its module cannot be used.
    """
    plugin = plugins.get("method", name)
    method = plugin.load()
    docstring = (sys.modules[method.__module__].__doc__ or "(no docstring)").strip()
    needs = []
    if method.needs.optimizers:
        needs.append(f"needs an optimizer that is {' or '.join(method.needs.optimizers)}")
    for what, least in (("workers", method.needs.workers), ("nodes", method.needs.nodes)):
        if least > 1:
            needs.append(f"needs at least {least} {what}")
    if plugin.defines("prepare"):
        needs.append("needs a preparation, its own or that of another cell (`prepare_from` in a suite)")
    equals = [_is_ssgd(entry) for entry in method.equals_ssgd]
    ablations = [f"is an ablation, and no baseline, with {options}" for options in method.ablations]
    return AboutMethod(
        plugin.name,
        plugins.show(plugin.path),
        docstring,
        describe(method),
        needs,
        equals,
        ablations,
        method.provenance,
    )


def _is_ssgd(entry: object) -> str:
    if isinstance(entry, InTheLimit):
        how = f"in the limit with {entry.options or 'its defaults'}, within {entry.tolerance:g}"
        return f"is SSGD {how}: {entry.reason}"
    return f"is SSGD with {entry or 'its defaults'}"
