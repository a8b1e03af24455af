"""`thinwire compare [FOLDER]`."""

from argparse import Namespace

from thinwire.audit.compare import compare


def main(arguments: Namespace) -> int:
    """Print a rerun beside the committed results; 1 if a cell lies outside its interval."""
    table = compare(arguments.folder, arguments.results)
    print(table.to_markdown(index=False, disable_numparse=False, floatfmt=".10g"))
    counts = ", ".join(f"{number} {verdict}" for verdict, number in table.verdict.value_counts().items())
    print(f"\n{len(table)} comparisons: {counts}")
    return int((table.verdict == "outside").any())
