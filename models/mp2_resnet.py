"""The narrow ResNets on which MP2 was published: depth 18, 34 or 50, no batch norm, biases everywhere.

The stem is one 3x3 convolution with pooling. Four stages of units follow, with 32, 64, 128 and 256 channels.
In depths 18 and 34, a unit has two 3x3 convolutions. In depth 50, it has 1x1, 3x3 and 1x1 convolutions, the
last with four times the channels. If a unit changes the shape, its shortcut is a convolution: 3x3 in depths
18 and 34, 1x1 in depth 50. On CIFAR-10 they have 3,139,274, 5,666,314 and 5,885,770 parameters.

Source: the authors' code, github
MP2-GitHub/Model-Parameter-Prediction-Method-for-Distributed-Machine-Learning, what the workers train. The
authors train the predictors on slightly different networks: in depth 34 one convolution is bypassed, and in
depth 50 the last convolution of a stage's first unit has the stride, in the first stage as well.

Where the stride is 2, TensorFlow pads the maps only below and on the right. In depths 18 and 34 this gives
the mirror image of the model here. In depth 50 it gives a slightly different model, because a 1x1 convolution
does not move with the padding.

Ours: the initial weights are He's. Without batch norm the maps would grow with the depth. So the weights of
each unit's last convolution are divided by the square root of the number of units. This follows Zhang,
Dauphin & Ma, "Fixup" (arXiv 1901.09321).
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

import thinwire
from thinwire.api.model import HalvingPool, initialise_he

_UNITS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3)}


class Unit(nn.Module):
    """Convolutions with ReLU between them, then the sum with the shortcut, then ReLU."""

    def __init__(self, convolutions: list[nn.Module], shortcut: nn.Module) -> None:
        super().__init__()
        layers = [layer for convolution in convolutions for layer in (convolution, nn.ReLU())]
        self.convolutions = nn.Sequential(*layers[:-1])
        self.shortcut = shortcut

    def forward(self, maps: Tensor) -> Tensor:
        return (self.convolutions(maps) + self.shortcut(maps)).relu()


class Model(thinwire.Model):
    @dataclass
    class Config:
        depth: Literal[18, 34, 50] = 18  # layers
        width: Annotated[int, Field(ge=1)] = 32  # channels of the first stage

    def __init__(self, config: Config, shape: tuple[int, int, int], classes: int) -> None:
        super().__init__(config, shape, classes)
        self.stem = nn.Sequential(nn.Conv2d(shape[0], config.width, 3, padding=1), nn.ReLU(), HalvingPool())
        unit = _bottleneck if config.depth == 50 else _basic
        self.resolutions = nn.ModuleList()
        inputs = config.width
        for number, units in enumerate(_UNITS[config.depth]):
            channels = config.width * 2**number
            made = []
            for place in range(units):
                stride = 2 if number > 0 and place == 0 else 1
                made_unit, inputs = unit(inputs, channels, stride)
                made.append(made_unit)
            self.resolutions.append(nn.Sequential(*made))
        self.classifier = nn.Linear(inputs, classes)
        initialise_he(self)
        with torch.no_grad():
            for module in self.modules():
                if isinstance(module, Unit):
                    module.convolutions[-1].weight /= sum(_UNITS[config.depth]) ** 0.5

    def forward(self, images: Tensor) -> Tensor:
        maps = self.stem(images)
        for stage in self.resolutions:
            maps = stage(maps)
        return self.classifier(maps.mean((2, 3)))

    def stages(self) -> list[list[nn.Module]]:
        first, *rest = self.resolutions
        return [[self.stem, first], *([stage] for stage in rest), [self.classifier]]


def _basic(inputs: int, channels: int, stride: int) -> tuple[Unit, int]:
    """Two 3x3 convolutions. Returns the unit and its number of output channels."""
    convolutions: list[nn.Module] = [
        nn.Conv2d(inputs, channels, 3, stride, padding=1),
        nn.Conv2d(channels, channels, 3, padding=1),
    ]
    same = inputs == channels and stride == 1
    shortcut = nn.Identity() if same else nn.Conv2d(inputs, channels, 3, stride, padding=1)
    return Unit(convolutions, shortcut), channels


def _bottleneck(inputs: int, channels: int, stride: int) -> tuple[Unit, int]:
    """1x1, 3x3 and 1x1 convolutions. Returns the unit and its number of output channels."""
    outputs = 4 * channels
    convolutions: list[nn.Module] = [
        nn.Conv2d(inputs, channels, 1),
        nn.Conv2d(channels, channels, 3, stride, padding=1),
        nn.Conv2d(channels, outputs, 1),
    ]
    shortcut = nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1, stride)
    return Unit(convolutions, shortcut), outputs
