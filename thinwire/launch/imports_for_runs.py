"""Does once, in a parent, what each of its runs would do again."""

import os
import sys
from importlib.abc import MetaPathFinder

from thinwire.provenance import packages
from thinwire.stop_signals import interrupts_ending_at_once


def import_for_runs() -> None:
    """Import what all runs need, before the forks begin; plug-ins are not imported."""
    # With this, the search for GPUs does not initialise CUDA, which forks could not use afterwards.
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    with interrupts_ending_at_once():
        import pyarrow
        import pyarrow.parquet
        import torch

    torch.set_num_threads(1)
    no_pandas = _NoPandas()
    sys.meta_path.insert(0, no_pandas)
    try:
        # With its first table, pyarrow imports more.
        pyarrow.parquet.write_table(pyarrow.table({"number": [0]}), pyarrow.BufferOutputStream())
    finally:
        sys.meta_path.remove(no_pandas)
    packages()


class _NoPandas(MetaPathFinder):
    """Finds no pandas, for which pyarrow looks once: at its first table.

    Importing it takes a fifth as long as importing torch. Runs write tables, and need no pandas for that.
    """

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        """Say that there is no pandas; other modules are found elsewhere."""
        if fullname == "pandas":
            raise ImportError("pyarrow is to do without pandas")
