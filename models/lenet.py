"""LeNet-5 (LeCun et al., 1998) in the form of MP2's authors: two 5x5 convolutions and three linear layers.

On images of 28 pixels it has 44,426 parameters. `padding` puts zeros around the input of both convolutions,
for images that are too small otherwise.
"""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field
from torch import Tensor, nn

import thinwire


class Model(thinwire.Model):
    @dataclass
    class Config:
        width: Annotated[int, Field(ge=1)] = 6  # channels of the first convolution; the second has 16/6 times
        padding: Annotated[int, Field(ge=0, le=2)] = 0  # pixels of zeros around a convolution's input

    def __init__(self, config: Config, shape: tuple[int, int, int], classes: int) -> None:
        super().__init__(config, shape, classes)
        sides = [self._side_of_the_maps(side) for side in shape[1:]]
        if min(sides) < 1:
            raise thinwire.UserError(
                f"lenet with padding {config.padding} needs larger images than {shape[1]}x{shape[2]}: "
                "without padding at least 16 pixels, with padding 2 at least 4"
            )
        second = config.width * 16 // 6
        self.first = self._convolution(shape[0], config.width)
        self.second = self._convolution(config.width, second)
        self.classifier = nn.Sequential(
            nn.Linear(second * sides[0] * sides[1], 120),
            nn.ReLU(),
            nn.Linear(120, 84),
            nn.ReLU(),
            nn.Linear(84, classes),
        )

    def _convolution(self, inputs: int, outputs: int) -> nn.Sequential:
        return nn.Sequential(
            nn.Conv2d(inputs, outputs, 5, padding=self.config.padding), nn.ReLU(), nn.MaxPool2d(2)
        )

    def _side_of_the_maps(self, side: int) -> int:
        for _ in range(2):
            side = (side + 2 * self.config.padding - 4) // 2
        return side

    def forward(self, images: Tensor) -> Tensor:
        return self.classifier(self.second(self.first(images)).flatten(1))

    def stages(self) -> list[list[nn.Module]]:
        return [[self.first], [self.second], [self.classifier]]
