"""`thinwire show METHOD`."""

from argparse import Namespace

from rich.console import Console
from rich.table import Table

from thinwire.about_method import about_method


def main(arguments: Namespace) -> int:
    """Print all that can be said about a method from its module alone."""
    about = about_method(arguments.method)
    console = Console(highlight=False, markup=False)
    console.print(f"{about.name}  ({about.path})\n", soft_wrap=True)
    console.print(about.docstring, soft_wrap=True)
    if about.options:
        table = _table("options", "name", "type", "default", "what it is")
        for option in about.options:
            table.add_row(*option)
        console.print()
        console.print(table)
    console.print()
    if about.provenance:
        table = _table("where its steps come from", "step", "source", "where, or why")
        for part in about.provenance:
            table.add_row(part.what, part.source, part.where)
        console.print(table)
    else:
        console.print("where its steps come from: not declared")
    for need in about.needs:
        console.print(f"\n{need}", soft_wrap=True)
    console.print()
    for way in about.equals_ssgd + about.ablations:
        console.print(way, soft_wrap=True)
    return 0


def _table(title: str, *headings: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table
