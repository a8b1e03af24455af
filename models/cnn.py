"""A small convolutional network: two convolutions with pooling, one linear layer."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field
from torch import nn

import thinwire
from thinwire.model import HalvingPool


class Model(thinwire.Model):
    @dataclass
    class Config:
        width: Annotated[int, Field(ge=1)] = 16  # channels of the first convolution; the second has double

    def __init__(self, config, shape, classes):
        super().__init__(config, shape, classes)
        channels, height, width = shape
        self.first = nn.Sequential(nn.Conv2d(channels, config.width, 3, padding=1), nn.ReLU(), HalvingPool())
        self.second = nn.Sequential(
            nn.Conv2d(config.width, 2 * config.width, 3, padding=1), nn.ReLU(), HalvingPool()
        )
        self.classifier = nn.Linear(2 * config.width * (height // 4) * (width // 4), classes)

    def forward(self, images):
        return self.classifier(self.second(self.first(images)).flatten(1))

    def stages(self):
        return [[self.first], [self.second], [self.classifier]]
