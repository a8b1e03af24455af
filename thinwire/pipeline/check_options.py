"""Checks the options of suites against their plug-ins, once for each state of both.

This imports the plug-ins, and with them torch. It takes seconds and memory, so a process of its own does it.
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from thinwire import digests
from thinwire.config.cell import Cell
from thinwire.config.expand_suite import require_valid
from thinwire.errors import UserError
from thinwire.files import writing
from thinwire.pipeline.inputs import plugin_digest
from thinwire.plugins import ROOT

# Has an empty file for each state that was found valid. Snakemake's own notes are in this folder too.
_VALID = Path(".snakemake/thinwire_valid")


def check_options(suites: Sequence[str], every: Sequence[Cell]) -> None:
    """Check the options of suites; `every` are their cells.

    Raises:
        UserError: an option is not valid.
    """
    valid = _VALID / _state(every)
    if valid.exists():
        return
    command = [sys.executable, "-m", __name__, *suites]
    answer = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if answer.returncode:
        raise UserError(answer.stderr.strip())
    with writing(valid):
        valid.parent.mkdir(parents=True, exist_ok=True)
        valid.touch()


def _state(every: Sequence[Cell]) -> str:
    """The digest of all options that are used, and of the plug-ins that take them."""
    used = {
        (kind, module.use, digests.of_identity(module.options))
        for cell in every
        for kind, module in (("dataset", cell.data), ("model", cell.model), ("method", cell.method))
    }
    return digests.of_identity([(*entry, plugin_digest(entry[0], entry[1])) for entry in sorted(used)])


def _main() -> None:
    try:
        for suite in sys.argv[1:]:
            require_valid(suite)
    except UserError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    _main()
