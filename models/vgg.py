"""VGG (Simonyan & Zisserman, arXiv 1409.1556) in the form used on CIFAR: 11 or 16 layers.

Five groups of 3x3 convolutions, each followed by pooling, and a head of two hidden layers as wide as the last
group. Maps of one pixel are not pooled further, so it takes images of any size.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field
from torch import Tensor, nn

import thinwire
from thinwire.api.model import HalvingPool, initialise_he

# Convolutions in each group, and their channels in units of the width.
_GROUPS = {11: (1, 1, 2, 2, 2), 16: (2, 2, 3, 3, 3)}
_CHANNELS = (1, 2, 4, 8, 8)


class Model(thinwire.Model):
    @dataclass
    class Config:
        depth: Literal[11, 16] = 11  # layers
        width: Annotated[int, Field(ge=1)] = 64  # channels of the first group
        batch_norm: bool = True  # batch normalisation after each convolution
        dropout: Annotated[float, Field(ge=0, lt=1)] = 0.5  # rate, for the two hidden layers of the head

    def __init__(self, config: Config, shape: tuple[int, int, int], classes: int) -> None:
        super().__init__(config, shape, classes)
        self.groups = nn.ModuleList()
        inputs = shape[0]
        for convolutions, units in zip(_GROUPS[config.depth], _CHANNELS):
            layers: list[nn.Module] = []
            for _ in range(convolutions):
                layers += self._convolution(inputs, units * config.width)
                inputs = units * config.width
            self.groups.append(nn.Sequential(*layers, HalvingPool()))
        self.classifier = nn.Sequential(
            nn.Linear(inputs, inputs),
            nn.ReLU(),
            nn.Dropout(config.dropout),
            nn.Linear(inputs, inputs),
            nn.ReLU(),
            nn.Dropout(config.dropout),
            nn.Linear(inputs, classes),
        )
        initialise_he(self)

    def _convolution(self, inputs: int, outputs: int) -> list[nn.Module]:
        norm = self.config.batch_norm
        layer = nn.Conv2d(inputs, outputs, 3, padding=1, bias=not norm)
        return [layer, nn.BatchNorm2d(outputs), nn.ReLU()] if norm else [layer, nn.ReLU()]

    def forward(self, images: Tensor) -> Tensor:
        maps = images
        for group in self.groups:
            maps = group(maps)
        return self.classifier(maps.mean((2, 3)))

    def stages(self) -> list[list[nn.Module]]:
        return [*([group] for group in self.groups), [self.classifier]]
