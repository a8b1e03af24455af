"""The options, and how they compress the large layers."""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from thinwire.codecs import kernels

# How the large layers of each kind are compressed.
COMPRESSED = {
    "hybrid": {"conv": "kernels", "linear": "two bits"},
    "uniform_kernels": {"conv": "kernels", "linear": "kernels"},
    "uniform_two_bits": {"conv": "two bits", "linear": "two bits"},
}


@dataclass
class Options:
    conv_threshold: Annotated[int, Field(ge=1)] = 32_768  # a convolution is large above so many entries
    linear_threshold: Annotated[int, Field(ge=1)] = 32_768  # a linear layer is large above so many entries
    # What is pushed of large layers. `hybrid`: kernels of convolutions, two bits an entry of linear layers.
    # `uniform_kernels` and `uniform_two_bits`: the same of both.
    compression: Literal["hybrid", "uniform_kernels", "uniform_two_bits"] = "hybrid"
    exponent: Annotated[float, Field(ge=0)] = 0.5  # how fast the share of kernels falls with size
    least_rate: Annotated[float, Field(gt=0, le=1)] = 0.1  # smallest share of kernels
    importance: kernels.Importance = "l1"  # norm by which kernels are chosen, or at random
    kappa: Annotated[float, Field(gt=0)] = 1.0  # threshold of the two bits, in mean magnitudes
    residual: bool = True  # whether what is not pushed is kept for later steps
    warmup_steps: Annotated[int, Field(ge=0)] = 0  # number of first steps in which all is pushed dense
