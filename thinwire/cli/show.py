"""`thinwire show METHOD`."""

from argparse import Namespace

from rich.console import Console
from rich.table import Table

from thinwire.about_method import about_method


def main(arguments: Namespace) -> int:
    """Print the docstring of a method, its options, its needs, and when it is SSGD or an ablation."""
    about = about_method(arguments.method)
    console = Console(highlight=False, markup=False)
    console.print(f"{about.name}  ({about.path})\n", soft_wrap=True)
    console.print(about.docstring, soft_wrap=True)
    if about.options:
        table = Table(title="options", title_justify="left", box=None, pad_edge=False)
        for heading in ("name", "type", "default", "what it is"):
            table.add_column(heading, overflow="fold")
        for option in about.options:
            table.add_row(*option)
        console.print()
        console.print(table)
    for need in about.needs:
        console.print(f"\n{need}", soft_wrap=True)
    console.print()
    for way in about.equals_ssgd + about.ablations:
        console.print(way, soft_wrap=True)
    return 0
