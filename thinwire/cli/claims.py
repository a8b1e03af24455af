"""`thinwire claims`."""

import sys
from argparse import Namespace

from thinwire.report.claims import table


def main(arguments: Namespace) -> int:
    """Write and print the verdicts on the claims of all suites, from the collected files."""
    made, sentences = table.table(arguments.results)
    table.write(made, arguments.results)
    print(table.short(made).to_markdown(index=False, disable_numparse=True))
    for sentence in sentences:
        print(sentence, file=sys.stderr)
    return 0
