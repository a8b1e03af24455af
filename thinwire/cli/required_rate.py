"""`thinwire required_rate`."""

from argparse import Namespace

import pandas as pd

from thinwire.config import cluster_file
from thinwire.report.required_rate import sentences, write
from thinwire.report.table_file import with_table_digits
from thinwire.simulation.required_rate import CLUSTER, required_rates, simulated


def main(arguments: Namespace) -> int:
    """Simulate which rate DASO needs, and write and print it."""
    rows = with_table_digits(pd.DataFrame(required_rates(simulated(), cluster_file.load(CLUSTER))))
    paths = write(rows, arguments.results)
    print("\n".join([*sentences(rows), *map(str, paths)]))
    return 0
