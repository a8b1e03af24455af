"""The predictor: a small network that predicts the values of the later layers from those of the first ones.

The prefix of p values is viewed as an 8x8 map of p / 64 channels. Three blocks of 3x3 convolution, ReLU,
channel attention and pooling reduce it to 8 features. Decoders predict each layer from them:

    convolution   the outer product of 64 numbers, shared by all convolutions, and a vector of its own: rank 1
    linear        a linear map of 64 numbers, shared by all linear layers; of the 8 features if there is only
    one

For LeNet, whose p is not a multiple of 64, the authors replace the first convolution by a linear map to 64
numbers. All this is as in their code.

Ours: the form for LeNet is used whenever p is not a multiple of 64. If the size of a convolution is not a
multiple of 64, the values of its outer product are cut to its size. In a ResNet the convolution of a unit's
shortcut comes after the unit's others in the prefix; the authors put it before them.
"""

import math
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from .layers import Shapes

FEATURES, CODE, SIDE = 8, 64, 8


class Attention(nn.Module):
    """Squeeze and excitation: scales each channel by a number that depends on the means of all channels."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.squeeze = nn.Linear(channels, channels // 4)
        self.excite = nn.Linear(channels // 4, channels)

    def forward(self, maps: Tensor) -> Tensor:
        means = maps.mean((2, 3))
        return maps * self.excite(self.squeeze(means).relu()).sigmoid()[:, :, None, None]


class Block(nn.Module):
    """Convolution, ReLU, attention and pooling, which halves height and width."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, FEATURES, 3, padding=1)
        self.attention = Attention(FEATURES)

    def forward(self, maps: Tensor) -> Tensor:
        return functional.max_pool2d(self.attention(self.conv(maps).relu()), 2)


class Predictor(nn.Module):
    """Predicts layers with these shapes from a prefix of so many values."""

    def __init__(self, prefix: int, shapes: list[Shapes]) -> None:
        super().__init__()
        self.folded = prefix % (SIDE * SIDE) == 0
        if self.folded:
            channels = [prefix // (SIDE * SIDE), FEATURES, FEATURES]
        else:
            self.mix = nn.Linear(prefix, CODE)
            self.attention = Attention(CODE)
            channels = [1, FEATURES]
        self.blocks = nn.ModuleList(Block(count) for count in channels)
        self.is_conv = [len(weight) > 2 for weight, *_ in shapes]
        self.sizes = [sum(map(math.prod, layer)) for layer in shapes]
        convs = [size for size, conv in zip(self.sizes, self.is_conv) if conv]
        linears = [size for size, conv in zip(self.sizes, self.is_conv) if not conv]
        if convs:
            self.conv_code = nn.Linear(FEATURES, CODE)
        if len(linears) > 1:
            self.linear_code = nn.Linear(FEATURES, CODE)
        inputs = FEATURES if len(linears) == 1 else CODE
        self.conv_layers = nn.ParameterList(torch.empty(math.ceil(size / CODE)) for size in convs)
        self.linear_layers = nn.ParameterList(torch.empty(size, inputs) for size in linears)

    def initialise(self) -> Self:
        """Normal with standard deviation 0.1, truncated at two of it; biases 0.1, in the attention 0."""
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.constant_(parameter, 0.0 if "attention" in name else 0.1)
            else:
                nn.init.trunc_normal_(parameter, std=0.1, a=-0.2, b=0.2)
        return self

    def forward(self, prefix: Tensor) -> list[Tensor]:
        """The predicted values of each layer, as vectors, from the prefix [p]."""
        features = self._features(prefix)
        if len(self.conv_layers):
            conv_code = self.conv_code(features).relu()
        linear_code = features
        if len(self.linear_layers) > 1:
            linear_code = self.linear_code(features).relu()
        convs, linears = iter(self.conv_layers), iter(self.linear_layers)
        return [
            torch.outer(conv_code, next(convs)).view(-1)[:size] if conv else next(linears) @ linear_code
            for conv, size in zip(self.is_conv, self.sizes)
        ]

    def _features(self, prefix: Tensor) -> Tensor:
        if self.folded:
            maps = prefix.view(1, SIDE, SIDE, -1).permute(0, 3, 1, 2)
        else:
            mixed = self.attention(self.mix(prefix).relu().view(1, CODE, 1, 1))
            maps = functional.max_pool2d(mixed.view(1, 1, SIDE, SIDE), 2)
        for block in self.blocks:
            maps = block(maps)
        return maps.flatten()
