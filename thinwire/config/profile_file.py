"""A compute profile: one file in `config/profiles/` that describes how fast a device computes."""

import difflib
from pathlib import Path

from pydantic import Field, ValidationError

from thinwire.config import yaml_file
from thinwire.config.suite_schema import Title
from thinwire.errors import Problems, UserError
from thinwire.label import require_label
from thinwire.optim.recipe import Strict
from thinwire.options import problems
from thinwire.plugins import ROOT, show

FOLDER = ROOT / "config" / "profiles"
# The profile that is measured on this machine; it has no file.
HERE = "here"


class Device(Strict):
    """A device of which nobody needs to have one here. docs/simulation.md explains every key."""

    title: Title = Field(description="one line: what this device is")
    flops_per_second: float = Field(gt=0, description="that it reaches when it trains, not its peak")
    memory_gigabytes_per_second: float = Field(gt=0, description="of its own memory")
    launch_seconds: float = Field(ge=0, le=1, description="the least that a layer or a function takes")
    error: str = Field(min_length=1, description="how wrong the times may be, and where")


def load(name: str) -> Device:
    """Read and validate the profile of this name.

    Raises:
        UserError: there is no such profile, or its file has errors; one message lists all of them.
    """
    require_label(name)
    names = profile_names()
    if name not in names:
        nearest = difflib.get_close_matches(name, names, n=1, cutoff=0.0)[0]
        raise UserError(
            f"there is no compute profile {name!r}: config/profiles/ has {', '.join(names)}; the nearest is "
            f"{nearest}"
        )
    path = FOLDER / f"{name}.yaml"
    content = yaml_file.read(path)
    if not isinstance(content, dict):
        raise UserError(f"{show(path)}: a compute profile is a mapping; docs/simulation.md shows its keys")
    try:
        return Device.model_validate(content)
    except ValidationError as error:
        raise Problems(show(path), problems(error)) from None


def profile_names() -> list[str]:
    """The names of all compute profiles."""
    return sorted(path.stem for path in Path(FOLDER).glob("*.yaml"))
