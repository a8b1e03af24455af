"""`thinwire list`."""

from argparse import Namespace

from rich.console import Console
from rich.table import Table

from thinwire import plugins


def main(arguments: Namespace) -> int:
    """Print every plug-in with the first line of its docstring, and a broken one with its error."""
    console = Console(highlight=False, markup=False)
    broken = False
    for kind in plugins.CLASS:
        table = Table(title=f"{kind}s", title_justify="left", show_header=False, box=None, pad_edge=False)
        table.add_column(no_wrap=True)
        table.add_column()
        for name, plugin in plugins.find(kind).items():
            try:
                plugin.load()
                table.add_row(f"  {name}", plugin.title)
            except plugins.PluginError as error:
                broken = True
                table.add_row(f"  {name}", f"broken: {error}", style="red")
        console.print(table)
        console.print()
    return int(broken)
