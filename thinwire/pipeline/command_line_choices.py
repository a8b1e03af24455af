"""What a person chooses with `snakemake --config`: suites, some of their cells, and a folder with data."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thinwire.config import grid_subset
from thinwire.config.cell import Module
from thinwire.config.grid_subset import WHOLE, Subset
from thinwire.errors import UserError

KEYS = ("suites", "data", *grid_subset.KEYS)


@dataclass(frozen=True)
class Chosen:
    suites: list[str]
    data: Path | None = None  # has a folder for each data set whose files cannot be downloaded
    subset: Subset = WHOLE

    def place_of(self, dataset: Module) -> str:
        """The option of `thinwire data` for the folder of this data set; empty where there is no such folder.

        The folder has the label of the data set, or the name of its module.
        """
        names = (dataset.label, dataset.use) if self.data else ()
        for folder in (Path(self.data or "") / name for name in names):
            if folder.is_dir():
                return f"--from {shlex.quote(str(folder))}"
        return ""


def chosen(config: Mapping[str, Any]) -> Chosen:
    """Read what was given; without `suites` the demo is chosen.

    Raises:
        UserError: a key is unknown, a value is not valid, or the folder does not exist.
    """
    if unknown := sorted(set(config) - set(KEYS)):
        raise UserError(f"--config {unknown[0]}: there is no such key; there are {', '.join(KEYS)}")
    suites = list(dict.fromkeys(name.strip() for name in str(config.get("suites", "demo")).split(",")))
    data = Path(str(config["data"])) if "data" in config else None
    if data is not None and not data.is_dir():
        raise UserError(f"--config data={data}: there is no such folder")
    return Chosen(suites, data, grid_subset.of(config))
