"""NAME: two convolutions with pooling, and a linear layer."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field
from torch import Tensor, nn

import thinwire


class Model(thinwire.Model):
    # For texts: task = "next_character", and inputs are windows of characters, int64 [N, L].

    @dataclass
    class Config:
        # Each option has a type with its limits, a default, and a comment that says what it is.
        width: Annotated[int, Field(ge=1)] = 16  # channels of each convolution

    def __init__(self, config: Config, shape: tuple[int, int, int], classes: int) -> None:
        # `shape` is (C, H, W) of an image. torch's generator is seeded: draw weights from nothing else.
        super().__init__(config, shape, classes)
        channels, height, width = shape
        self.first = self._stage(channels)
        self.second = self._stage(config.width)
        self.classifier = nn.Linear(config.width * (height // 4) * (width // 4), classes)

    def _stage(self, inputs: int) -> nn.Sequential:
        return nn.Sequential(nn.Conv2d(inputs, self.config.width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))

    def forward(self, images: Tensor) -> Tensor:
        # From images [N, C, H, W] to logits [N, classes].
        return self.classifier(self.second(self.first(images)).flatten(1))

    def stages(self) -> list[list[nn.Module]]:
        # The layers by resolution, for methods that treat them differently. The last is the classifier alone.
        return [[self.first], [self.second], [self.classifier]]
