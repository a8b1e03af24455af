"""The AlexNet on which MP2 was published: five convolutions, three linear layers, no batch norm, no dropout.

The convolutions have 96 (3x3), 256 (5x5), 384, 384 and 256 channels (3x3). The linear layers have 100, 100
and as many outputs as there are classes, without activations between them. On CIFAR-10 the model has
3,751,754 parameters, of which MP2 pushes the 617,344 of the first two convolutions.

Source: the authors' code, github
MP2-GitHub/Model-Parameter-Prediction-Method-for-Distributed-Machine-Learning, cifar10-AlexNet/
mp2_alexnet_worker.py at commit 4a782c9. As there, 2x2 max pooling follows the first and the second
convolution, and 8x8 max pooling the fifth. With images of 32 pixels that leaves one value for each channel.

Ours: images of other sizes are also pooled to one value for each channel, so the number of parameters does
not depend on their size. The initial weights are He's for the convolutions and torch's for the linear layers;
the authors draw all weights from a truncated normal distribution with standard deviation 0.1.
"""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field
from torch import Tensor, nn

import thinwire
from thinwire.api.model import HalvingPool, initialise_he


class Model(thinwire.Model):
    @dataclass
    class Config:
        width: Annotated[int, Field(ge=3)] = 96  # channels of the first convolution

    def __init__(self, config: Config, shape: tuple[int, int, int], classes: int) -> None:
        super().__init__(config, shape, classes)
        first, second, third = config.width, config.width * 8 // 3, config.width * 4
        self.first = nn.Sequential(nn.Conv2d(shape[0], first, 3, padding=1), nn.ReLU(), HalvingPool())
        self.second = nn.Sequential(nn.Conv2d(first, second, 5, padding=2), nn.ReLU(), HalvingPool())
        self.third = nn.Sequential(
            nn.Conv2d(second, third, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(third, third, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(third, second, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveMaxPool2d(1),
        )
        self.classifier = nn.Sequential(
            nn.Linear(second, 100),
            nn.Linear(100, 100),
            nn.Linear(100, classes),
        )
        initialise_he(self)

    def forward(self, images: Tensor) -> Tensor:
        maps = self.third(self.second(self.first(images)))
        return self.classifier(maps.flatten(1))

    def stages(self) -> list[list[nn.Module]]:
        return [[self.first], [self.second], [self.third], [self.classifier]]
