"""What must be true before jobs are sent to Slurm, and what they need to find its configuration."""

import os
import shutil
import subprocess
from collections.abc import Mapping, MutableMapping
from pathlib import Path

from thinwire.errors import UserError

_COPY_OF_CONF = "THINWIRE_SLURM_CONF"


def hand_on_conf(variables: MutableMapping[str, str] = os.environ) -> None:
    """Copy SLURM_CONF, or restore it where it was lost. It is set if the configuration is not in /etc/slurm.

    The jobs of Snakemake's plug-in for Slurm lose all variables whose names begin with SLURM_. So a copy
    under another name goes with them, and the job restores the variable, which the commands of Slurm need.

    Args:
        variables: of the environment of this process, which its jobs inherit.
    """
    if "SLURM_CONF" in variables:
        variables[_COPY_OF_CONF] = variables["SLURM_CONF"]
    elif _COPY_OF_CONF in variables:
        variables["SLURM_CONF"] = variables[_COPY_OF_CONF]


def require_ready(defaults: Mapping[str, str]) -> None:
    """Slurm and its profile are there, and no job is left of an earlier snakemake in this folder.

    Args:
        defaults: the default resources of the profile, by name.

    Raises:
        UserError: something is missing, or such jobs are in the queue.
    """
    require_slurm(defaults)
    require_no_jobs(Path.cwd())


def require_slurm(defaults: Mapping[str, str]) -> None:
    """There is a Slurm, and the profile, whose default resources are given, says on whose account.

    Raises:
        UserError: one of them is missing.
    """
    if shutil.which("sbatch") is None:
        raise UserError(
            "there is no Slurm here (sbatch is not found): run this on a cluster's login node, or "
            "leave out --profile slurm"
        )
    if defaults.get("slurm_account") == "":
        raise UserError(
            "slurm/config.yaml names no slurm_account: write yours there, or delete the line if the "
            "cluster has no accounts"
        )


def require_no_jobs(folder: Path) -> None:
    """No job of this folder is in the queue: a snakemake that was killed leaves some, which would run twice.

    Raises:
        UserError: there are some; the sentence says how to stop them.
    """
    asked = ["squeue", "--me", "--noheader", "--format=%i %Z %k"]
    listing = subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    if left := jobs_of(folder, listing):
        raise UserError(
            f"an earlier snakemake has left jobs here: let them end, or stop them with scancel "
            f"{' '.join(left)}, which loses nothing, and start again"
        )


def jobs_of(folder: Path, listing: str) -> list[str]:
    """The ids of the pipeline's jobs from this folder.

    Args:
        listing: a line for each job with its id, its folder and its comment, which names a rule.
    """
    return [line.split()[0] for line in listing.splitlines() if f" {folder} rule_" in line]
