"""`thinwire track SUITE ...`."""

import sys
from argparse import Namespace

from thinwire.config import grid_subset
from thinwire.tracking.replay import replay


def main(arguments: Namespace) -> int:
    """Make offline runs of W&B from the records of runs. The command succeeds even if W&B cannot be used."""
    subset = grid_subset.of_words(arguments.only)
    for suite in arguments.suites:
        made = replay(suite, arguments.results, subset)
        if made.problem is not None:
            print(f"thinwire: W&B: {made.problem}: the runs of {suite} are not replayed", file=sys.stderr)
            continue
        left = made.cells - made.runs
        print(f"{made.runs} runs of {suite} replayed{f', {left} are not published yet' if left else ''}")
        print(f"  browse them: wandb leet {made.folder}")
        print(f"  send them:   wandb sync {made.folder}")
    return 0
