"""ResNet (He et al., arXiv 1512.03385): the CIFAR form of depth 6n+2, or torchvision's for ImageNet sizes.

The CIFAR form has three stages of n blocks. Its shortcuts have no parameters: they subsample and pad with
zeros (the paper's option A). Depths 18 and 50 are torchvision's, which have one width only. For small images
their stem can be one convolution of 3 x 3 without pooling, as is usual on CIFAR: the published stem leaves
8 x 8 of 32 x 32 pixels.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional

import thinwire
from thinwire.api.model import initialise_he

_TORCHVISION_WIDTH = 64
_SMALL_PIXELS = 64  # images below this height and width are small


class Block(nn.Module):
    """conv, bn, relu, conv, bn, then the sum with the shortcut, then relu."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.stride = stride
        self.extra = outputs - inputs

    def forward(self, maps: Tensor) -> Tensor:
        shortcut = maps[:, :, :: self.stride, :: self.stride]
        if self.extra:
            shortcut = functional.pad(shortcut, (0, 0, 0, 0, 0, self.extra))
        maps = self.bn1(self.conv1(maps)).relu()
        return (self.bn2(self.conv2(maps)) + shortcut).relu()


class Model(thinwire.Model):
    @dataclass
    class Config:
        depth: Literal[8, 18, 20, 32, 50, 56, 110] = 20  # layers; 18 and 50: the ImageNet form
        width: Annotated[int, Field(ge=1)] | None = (
            None  # channels of the first stage; default 16, in the ImageNet form 64
        )
        # Of the ImageNet form; by_size: small for images of fewer than 64 x 64 pixels.
        stem: Literal["imagenet", "small", "by_size"] = "imagenet"

    def __init__(self, config: Config, shape: tuple[int, int, int], classes: int) -> None:
        super().__init__(config, shape, classes)
        if config.depth in (18, 50):
            self._build_imagenet_form(config, shape, classes)
        else:
            self._build_cifar_form(config, shape, classes)
        initialise_he(self)

    def _build_cifar_form(self, config: Config, shape: tuple[int, int, int], classes: int) -> None:
        if config.stem != "imagenet":
            raise thinwire.UserError(
                f"resnet of depth {config.depth} has the stem of CIFAR's form: leave the stem out, or choose "
                "a depth of 18 or 50"
            )
        blocks = (config.depth - 2) // 6
        width = config.width or 16
        self.stem = nn.Sequential(
            nn.Conv2d(shape[0], width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()
        )
        self.stage1 = _stage(width, width, blocks, stride=1)
        self.stage2 = _stage(width, 2 * width, blocks, stride=2)
        self.stage3 = _stage(2 * width, 4 * width, blocks, stride=2)
        self.classifier = nn.Linear(4 * width, classes)

    def _build_imagenet_form(self, config: Config, shape: tuple[int, int, int], classes: int) -> None:
        if config.width not in (None, _TORCHVISION_WIDTH):
            raise thinwire.UserError(
                f"resnet of depth {config.depth} is torchvision's and has width {_TORCHVISION_WIDTH} "
                f"only, not {config.width}: leave the width out, or choose a depth of 8, 20, 32, 56 or 110"
            )
        from torchvision import models  # takes a second, which the CIFAR form does not need

        net = getattr(models, f"resnet{config.depth}")(num_classes=classes)
        small = config.stem == "small" or (config.stem == "by_size" and max(shape[1:]) < _SMALL_PIXELS)
        if small:
            net.conv1 = nn.Conv2d(shape[0], 64, 3, padding=1, bias=False)
        elif shape[0] != 3:
            net.conv1 = nn.Conv2d(shape[0], 64, 7, stride=2, padding=3, bias=False)
        pool = [] if small else [net.maxpool]
        self.stem = nn.Sequential(net.conv1, net.bn1, net.relu, *pool)
        self.stage1, self.stage2 = net.layer1, net.layer2
        self.stage3, self.stage4 = net.layer3, net.layer4
        self.classifier = net.fc

    def forward(self, images: Tensor) -> Tensor:
        maps = self.stem(images)
        for stage in self._resolutions():
            maps = stage(maps)
        return self.classifier(maps.mean((2, 3)))

    def stages(self) -> list[list[nn.Module]]:
        first, *rest = self._resolutions()
        return [[self.stem, first], *([stage] for stage in rest), [self.classifier]]

    def _resolutions(self) -> list[nn.Module]:
        return [s for name, s in self.named_children() if name.startswith("stage")]


def _stage(inputs: int, outputs: int, blocks: int, stride: int) -> nn.Sequential:
    rest = [Block(outputs, outputs, 1) for _ in range(blocks - 1)]
    return nn.Sequential(Block(inputs, outputs, stride), *rest)
