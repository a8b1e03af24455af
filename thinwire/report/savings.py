"""The columns "less": by how many percent a method sends fewer bytes than the baseline.

Both are of the same data set, model, workers, nodes and kind of run.
"""

import pandas as pd

CELL = ["dataset", "model", "workers", "nodes"]
# What stands in one block of a table: runs that were made in different ways are not compared.
BLOCK = [*CELL, "kind"]
# The payload of a run together with that of its preparation, which several runs may share.
WITH_PREPARATION = "total with prepared"
# The same, where each of the runs that use one preparation has its share of it.
WITH_SHARE = "total with share of prepared"
# The bytes of the one worker, in the one direction, that carries most of them.
BUSIEST_LINK = "busiest link"
# What is compared, each under the name that its columns begin with.
TRAFFIC = ("push", "pull", "total", "wire", BUSIEST_LINK, "between nodes", WITH_PREPARATION)


def bytes_column(name: str) -> str:
    """The column with the mean bytes of this traffic."""
    return f"{name.replace(' ', '_')}_bytes"


def reduction_column(name: str) -> str:
    """The column with the reduction of this traffic in percent: 0 is the baseline's bytes, 100 is none."""
    return f"{name.replace(' ', '_')}_reduction_percent"


def with_reductions(table: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Add the `reduction_column` of all `TRAFFIC` to a table with its `bytes_column`.

    A reduction is missing where the baseline is missing or sends nothing.

    Args:
        table: one row for each block and method, with columns `BLOCK` and `method`, and row numbers from 0.
        baseline: label of the method to compare with.
    """
    reductions = {}
    for name in TRAFFIC:
        reference = of_baseline(table, baseline, bytes_column(name))
        reductions[reduction_column(name)] = 100 * (
            1 - table[bytes_column(name)] / reference.where(reference > 0)
        )
    return table.assign(**reductions)


def runs_to_break_even(table: pd.DataFrame, baseline: str) -> pd.Series:
    """For each row, how many runs must share one preparation, so that they send no more than the baseline.

    Over k runs, each sends its own payload and a k-th of the preparation. Missing where there is no
    preparation, or where a run alone does not send less than one of the baseline.

    Args:
        table: as in `with_reductions`, with a column `preparation_bytes`.
        baseline: label of the method to compare with.
    """
    total = bytes_column("total")
    saved = of_baseline(table, baseline, total) - table[total]
    return table.preparation_bytes / saved.where(saved > 0)


def of_baseline(table: pd.DataFrame, baseline: str, column: str) -> pd.Series:
    """For each row, the value of a column in the baseline's row of the same block, if there is one."""
    values = table[table.method == baseline].set_index(BLOCK)[column]
    blocks = table[BLOCK].itertuples(index=False, name=None)
    return pd.Series([values.get(block) for block in blocks], dtype=float)
