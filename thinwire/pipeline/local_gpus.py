"""How many jobs with GPUs run at once on this machine; each of them claims its own GPUs when it begins.

Slurm counts GPUs by itself.
"""

from typing import Any

from thinwire.launch import gpu_claims
from thinwire.pipeline.job_grid import Grid

of_cell = gpu_claims.gpus_of
of_preparation = gpu_claims.gpus_of_preparation


def limit(workflow: Any, grid: Grid) -> None:
    """Give Snakemake the number of GPUs here, unless it was given one, if the grid needs any."""
    if workflow.is_main_process and (gpus := grid.gpus_here()):
        workflow.global_resources.setdefault("local_gpus", gpus)
