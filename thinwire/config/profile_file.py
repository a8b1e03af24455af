"""A compute profile: one file in `config/profiles/` that describes how fast a device computes."""

from pydantic import Field

from thinwire.config import yaml_file
from thinwire.config.types import OneLine
from thinwire.optim.recipe import Strict
from thinwire.plugins import ROOT

FOLDER = ROOT / "config" / "profiles"
# The profile that is measured on this machine; it has no file.
HERE = "here"


class Device(Strict):
    """A device of which nobody needs to have one here. docs/simulation.md explains every key."""

    title: OneLine = Field(description="one line: what this device is")
    flops_per_second: float = Field(gt=0, description="that it reaches when it trains, not its peak")
    memory_gigabytes_per_second: float = Field(gt=0, description="of its own memory")
    launch_seconds: float = Field(ge=0, le=1, description="the least that a layer or a function takes")
    error: str = Field(min_length=1, description="how wrong the times may be, and where")


def load(name: str) -> Device:
    """Read and validate the profile of this name.

    Raises:
        UserError: there is no such profile, or its file has errors; one message lists all of them.
    """
    path = yaml_file.named(FOLDER, name, "compute profile")
    return yaml_file.read(path, Device, "a compute profile", "docs/simulation.md")
