"""`thinwire show METHOD`."""

import sys
from argparse import Namespace

from rich.console import Console
from rich.table import Table

from thinwire import plugins
from thinwire.in_the_limit import InTheLimit
from thinwire.options import describe


def main(arguments: Namespace) -> int:
    """Print the docstring of a method, its options, its needs, and when it is SSGD."""
    plugin = plugins.get("method", arguments.method)
    method = plugin.load()
    console = Console(highlight=False, markup=False)
    module = sys.modules[method.__module__]
    console.print(f"{plugin.name}  ({plugins.show(plugin.path)})\n", soft_wrap=True)
    console.print((module.__doc__ or "(no docstring)").strip(), soft_wrap=True)
    options = describe(method)
    if options:
        table = Table(title="options", title_justify="left", box=None, pad_edge=False)
        for heading in ("name", "type", "default", "what it is"):
            table.add_column(heading, overflow="fold")
        for option in options:
            table.add_row(*option)
        console.print()
        console.print(table)
    if method.needs.optimizers:
        console.print(f"\nneeds an optimizer that is {' or '.join(method.needs.optimizers)}", soft_wrap=True)
    for what, least in (("workers", method.needs.workers), ("nodes", method.needs.nodes)):
        if least > 1:
            console.print(f"\nneeds at least {least} {what}", soft_wrap=True)
    console.print()
    for entry in method.equals_ssgd:
        if isinstance(entry, InTheLimit):
            how = f"in the limit with {entry.options or 'its defaults'}, within {entry.tolerance:g}"
            console.print(f"is SSGD {how}: {entry.reason}", soft_wrap=True)
        else:
            console.print(f"is SSGD with {entry or 'its defaults'}", soft_wrap=True)
    return 0
