"""The contract of a model.

A module in `models/` defines one class `Model`; its nested dataclass `Config` is its options. It takes
the image shape and the number of classes from the data set, and says how it splits into stages.
"""

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn


class Model(nn.Module):
    """The base of every model; `forward` maps images [N, C, H, W] to logits [N, classes]."""

    @dataclass
    class Config:
        """The options: typed, each with a default and a comment that says what it is."""

    def __init__(self, config: Any, shape: tuple[int, int, int], classes: int) -> None:
        """Build it for images of `shape` (C, H, W) with freshly drawn weights."""
        super().__init__()
        self.config = config

    def stages(self) -> list[list[nn.Module]]:
        """The layers by resolution, from the input: each parameter is in exactly one stage.

        The stem belongs to the first stage; the classifier is the last stage by itself.
        """
        raise NotImplementedError


def initialise_he(model: nn.Module) -> None:
    """He's initial weights for the convolutions (arXiv 1502.01852), and no bias."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)


class HalvingPool(nn.MaxPool2d):
    """2x2 max pooling that leaves maps of a single pixel alone, so that deep models take small images."""

    def __init__(self) -> None:
        super().__init__(2)

    def forward(self, maps: Tensor) -> Tensor:
        """Maps [N, C, H, W] to [N, C, H/2, W/2]."""
        return super().forward(maps) if min(maps.shape[-2:]) > 1 else maps
