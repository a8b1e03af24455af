"""Described accelerators: how fast a device is at the operations that training consists of.

Each is one file in `config/accelerators/`. Its name ends with the precision of the recipe.
"""

from pydantic import Field

from thinwire.base.options import Strict
from thinwire.config import yaml_file
from thinwire.config.yaml_file import OneLine
from thinwire.optim.recipe import Precision
from thinwire.plugins import ROOT

ACCELERATORS = ROOT / "config" / "accelerators"


class Accelerator(Strict):
    """A device of which nobody needs to have one here. docs/simulation.md explains every key."""

    title: OneLine = Field(description="one line: what this device is")
    precision: Precision = Field(description="of a recipe with which it reaches these rates")
    convolution_flops_per_second: float = Field(gt=0, description="that large convolutions reach")
    product_flops_per_second: float = Field(gt=0, description="that large products of matrices reach")
    memory_gigabytes_per_second: float = Field(gt=0, description="that large operations reach")
    operation_seconds: float = Field(gt=0, le=1, description="the least, because the host has to start it")
    pass_operation_seconds: float = Field(
        gt=0, le=1, description="the same in passes, where autograd is at work"
    )
    error: str = Field(min_length=1, description="how wrong the times may be, and where")

    @property
    def in_passes(self) -> "Accelerator":
        """The same device, while autograd is at work."""
        return self.model_copy(update={"operation_seconds": self.pass_operation_seconds})

    def seconds(self, flops: float, convolution: bool, moved_bytes: float, started: float = 1.0) -> float:
        """How long an operation takes.

        Args:
            flops: its floating-point operations.
            convolution: is it one? Otherwise it is a product, or has no such operations.
            moved_bytes: that it reads and writes.
            started: how often the host starts it; less than once if it is started together with others.
        """
        rate = self.convolution_flops_per_second if convolution else self.product_flops_per_second
        moving = moved_bytes / (self.memory_gigabytes_per_second * 1e9)
        return max(flops / rate, moving, started * self.operation_seconds)


def accelerator_of(name: str, precision: Precision) -> str:
    """The accelerator of this name; of the name of a device, such as `a100`, the one with a precision."""
    return name if name in yaml_file.names(ACCELERATORS) else f"{name}_{precision}"


def unlike_recipe(name: str, precision: Precision) -> str | None:
    """Say that an accelerator computes in another precision than a recipe, as its runs never would.

    The result is a sentence without its full stop, or None if both are the same. Errors are those of
    `load_accelerator`.
    """
    own = load_accelerator(name).precision
    if own == precision:
        return None
    return (
        f"{name} is of {own}, and the recipe of {precision}: these are times of runs with "
        f"recipe.precision: {own}"
    )


def load_accelerator(name: str) -> Accelerator:
    """Read and validate the accelerator of this name.

    Raises:
        UserError: there is no such accelerator, or its file has errors; one message lists all of them.
    """
    path = yaml_file.named(ACCELERATORS, name, "accelerator")
    return yaml_file.read(path, Accelerator, "an accelerator", "docs/simulation.md")
