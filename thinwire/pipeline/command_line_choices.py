"""What a person chooses with `snakemake --config`: suites or tunings, some cells, and a folder with data."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from thinwire.config import grid_subset
from thinwire.config.grid_subset import WHOLE, Subset
from thinwire.config.tuning_suite import PREFIX
from thinwire.config.types import Module
from thinwire.errors import UserError

KEYS = ("suites", "tune", "data", *grid_subset.KEYS)


@dataclass(frozen=True)
class Chosen:
    suites: list[str]
    data: Path | None = None  # has a folder for each data set whose files cannot be downloaded
    subset: Subset = WHOLE

    @property
    def tuned(self) -> list[str]:
        """The suites that are tuned, if tunings were chosen."""
        return [name.removeprefix(PREFIX) for name in self.suites if name.startswith(PREFIX)]

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
    if "suites" in config and "tune" in config:
        raise UserError("--config suites=... tune=...: give one of them")
    suites = _names(config.get("suites", "demo"))
    if wrong := [name for name in suites if name.startswith(PREFIX)]:
        raise UserError(f"--config suites={wrong[0]}: give tune={wrong[0].removeprefix(PREFIX)} instead")
    if "tune" in config:
        suites = [f"{PREFIX}{name}" for name in _names(config["tune"])]
    data = Path(str(config["data"])) if "data" in config else None
    if data is not None and not data.is_dir():
        raise UserError(f"--config data={data}: there is no such folder")
    return Chosen(suites, data, grid_subset.of(config))


def _names(listed: Any) -> list[str]:
    """Names between commas, each once."""
    return list(dict.fromkeys(name.strip() for name in str(listed).split(",")))
