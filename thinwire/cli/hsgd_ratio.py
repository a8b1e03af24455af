"""`thinwire hsgd_ratio`."""

from argparse import Namespace

import pandas as pd

from thinwire.config import cluster_file
from thinwire.report.hsgd_ratio import write
from thinwire.report.table_file import with_table_digits
from thinwire.simulation.hsgd_ratio import CLUSTER, ends_of_the_ladder, ratios
from thinwire.statistics.rounding import fixed


def main(arguments: Namespace) -> int:
    """Simulate the ratio between the ends of HSGD's ladder, and write and print it."""
    cluster = cluster_file.load(CLUSTER)
    rows = with_table_digits(pd.DataFrame(ratios(*ends_of_the_ladder(cluster.workers_per_node), cluster)))
    paths = write(rows, arguments.results)
    for nodes, own in rows.groupby("nodes"):
        least, most = fixed(own.ratio.min(), 2), fixed(own.ratio.max(), 2)
        print(f"{nodes} nodes: a ratio of {least} to {most} (simulated)")
    print("\n".join(map(str, paths)))
    return 0
