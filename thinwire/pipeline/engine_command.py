"""The command with which jobs call the engine."""

import shlex
import sys
from typing import Any

from snakemake.settings.types import DeploymentMethod


def engine_command(deployment: Any) -> str:
    """The engine of this checkout, in this environment or in the one that conda made."""
    conda_made = DeploymentMethod.CONDA in deployment.deployment_method
    return f"{'python' if conda_made else shlex.quote(sys.executable)} -m thinwire"
