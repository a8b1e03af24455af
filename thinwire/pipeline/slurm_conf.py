"""Hands SLURM_CONF on to the jobs of a cluster whose configuration lies elsewhere than in /etc/slurm.

The jobs of snakemake's plug-in for Slurm lose all variables whose names begin with SLURM_. So a copy under
another name goes with them, and the job restores the variable from it. The commands of Slurm need it there.
"""

import os
from collections.abc import MutableMapping

_COPY = "THINWIRE_SLURM_CONF"


def hand_on(variables: MutableMapping[str, str] = os.environ) -> None:
    """Copy SLURM_CONF, or restore it where it was lost.

    Args:
        variables: of the environment of this process, which its jobs inherit.
    """
    if "SLURM_CONF" in variables:
        variables[_COPY] = variables["SLURM_CONF"]
    elif _COPY in variables:
        variables["SLURM_CONF"] = variables[_COPY]
