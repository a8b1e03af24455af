"""What must be true before jobs are sent to Slurm."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from thinwire.errors import UserError


def require_ready(default_resources: Sequence[str]) -> None:
    """Slurm and its profile are there, and no job is left of an earlier snakemake in this folder.

    Raises:
        UserError: something is missing, or such jobs are in the queue.
    """
    require_slurm(default_resources)
    require_no_jobs(Path.cwd())


def require_slurm(default_resources: Sequence[str]) -> None:
    """There is a Slurm, and the profile says on whose account; `default_resources` are `NAME=VALUE`.

    Raises:
        UserError: one of them is missing.
    """
    if shutil.which("sbatch") is None:
        raise UserError(
            "there is no Slurm here (sbatch is not found): run this on a cluster's login node, or "
            "leave out --profile slurm"
        )
    accounts = [given.split("=", 1)[1] for given in default_resources if given.startswith("slurm_account=")]
    if accounts and not accounts[0].strip("'\" "):
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
