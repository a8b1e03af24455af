"""The VGG-15 on which MP2 was published: twelve 3x3 convolutions, three linear layers, no batch norm.

Groups of 2, 2, 3, 2 and 3 convolutions have 64, 128, 256, 256 and 256 channels; pooling follows each group.
The linear layers have 100, 100 and as many outputs as there are classes, without activations between them. On
CIFAR-10 the model has 4,722,698 parameters, of which MP2 pushes the 260,160 of the first two groups. Maps of
one pixel are not pooled further, so it takes images of any size.

Source: the authors' code, github
MP2-GitHub/Model-Parameter-Prediction-Method-for-Distributed-Machine-Learning. Ours: the initial weights are
He's.
"""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field
from torch import Tensor, nn

import thinwire
from thinwire.api.model import HalvingPool, initialise_he

# Convolutions of each group, and their channels in units of the width.
_GROUPS = ((2, 1), (2, 2), (3, 4), (2, 4), (3, 4))


class Model(thinwire.Model):
    @dataclass
    class Config:
        width: Annotated[int, Field(ge=1)] = 64  # channels of the first group

    def __init__(self, config: Config, shape: tuple[int, int, int], classes: int) -> None:
        super().__init__(config, shape, classes)
        self.groups = nn.ModuleList()
        inputs = shape[0]
        for convolutions, units in _GROUPS:
            layers: list[nn.Module] = []
            for _ in range(convolutions):
                layers += [nn.Conv2d(inputs, units * config.width, 3, padding=1), nn.ReLU()]
                inputs = units * config.width
            self.groups.append(nn.Sequential(*layers, HalvingPool()))
        self.classifier = nn.Sequential(
            nn.Linear(inputs, 100),
            nn.Linear(100, 100),
            nn.Linear(100, classes),
        )
        initialise_he(self)

    def forward(self, images: Tensor) -> Tensor:
        maps = images
        for group in self.groups:
            maps = group(maps)
        return self.classifier(maps.mean((2, 3)))

    def stages(self) -> list[list[nn.Module]]:
        return [*([group] for group in self.groups), [self.classifier]]
