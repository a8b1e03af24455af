"""A small convolutional network: two convolutions with pooling, one linear layer; batch norm on request."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field
from torch import Tensor, nn

import thinwire
from thinwire.api.model import HalvingPool


class Model(thinwire.Model):
    @dataclass
    class Config:
        width: Annotated[int, Field(ge=1)] = 16  # channels of the first convolution; the second has double
        batch_norm: bool = False  # after each convolution, which then has no bias

    def __init__(self, config: Config, shape: tuple[int, int, int], classes: int) -> None:
        super().__init__(config, shape, classes)
        channels, height, width = shape
        self.first = _stage(channels, config.width, config.batch_norm)
        self.second = _stage(config.width, 2 * config.width, config.batch_norm)
        self.classifier = nn.Linear(2 * config.width * (height // 4) * (width // 4), classes)

    def forward(self, images: Tensor) -> Tensor:
        return self.classifier(self.second(self.first(images)).flatten(1))

    def stages(self) -> list[list[nn.Module]]:
        return [[self.first], [self.second], [self.classifier]]


def _stage(inputs: int, outputs: int, batch_norm: bool) -> nn.Sequential:
    conv = nn.Conv2d(inputs, outputs, 3, padding=1, bias=not batch_norm)
    norm = [nn.BatchNorm2d(outputs)] if batch_norm else []
    return nn.Sequential(conv, *norm, nn.ReLU(), HalvingPool())
