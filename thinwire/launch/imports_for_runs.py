"""Does once, in a parent, what each of its runs would do again."""

import os

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
    # With its first table, pyarrow imports pandas and more.
    pyarrow.parquet.write_table(pyarrow.table({"number": [0]}), pyarrow.BufferOutputStream())
    packages()
