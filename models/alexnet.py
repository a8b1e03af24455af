"""AlexNet (Krizhevsky, arXiv 1404.5997): the form used on CIFAR, or torchvision's for ImageNet sizes.

The CIFAR form has torchvision's layers and channels, with smaller kernels: 3x3 everywhere, the first with
stride 2. Maps of one pixel are not pooled further, so it takes images of any size.
"""

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

import thinwire
from thinwire.api.model import HalvingPool


class Model(thinwire.Model):
    @dataclass
    class Config:
        form: Literal["cifar", "imagenet"] = "cifar"  # imagenet: torchvision's, for images of 224 pixels
        width: Annotated[int, Field(ge=1)] = 64  # channels of the first convolution
        dropout: Annotated[float, Field(ge=0, lt=1)] = 0.5  # rate, for the two hidden layers of the head

    def __init__(self, config: Config, shape: tuple[int, int, int], classes: int) -> None:
        super().__init__(config, shape, classes)
        if config.form == "imagenet":
            self._build_imagenet_form(config, shape, classes)
        else:
            self._build_cifar_form(config, shape, classes)

    def _build_cifar_form(self, config: Config, shape: tuple[int, int, int], classes: int) -> None:
        w = config.width
        self.first = nn.Sequential(nn.Conv2d(shape[0], w, 3, stride=2, padding=1), nn.ReLU(), HalvingPool())
        self.second = nn.Sequential(nn.Conv2d(w, 3 * w, 3, padding=1), nn.ReLU(), HalvingPool())
        self.third = nn.Sequential(
            nn.Conv2d(3 * w, 6 * w, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(6 * w, 4 * w, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(4 * w, 4 * w, 3, padding=1),
            nn.ReLU(),
            HalvingPool(),
        )
        with torch.no_grad():
            features = self._features(torch.zeros(1, *shape)).numel()
        self.classifier = nn.Sequential(
            nn.Dropout(config.dropout),
            nn.Linear(features, 64 * w),
            nn.ReLU(),
            nn.Dropout(config.dropout),
            nn.Linear(64 * w, 64 * w),
            nn.ReLU(),
            nn.Linear(64 * w, classes),
        )

    def _build_imagenet_form(self, config: Config, shape: tuple[int, int, int], classes: int) -> None:
        if config.width != 64 or shape != (3, 224, 224):
            raise thinwire.UserError(
                "alexnet in its imagenet form is torchvision's and takes width 64 and images of "
                f"3x224x224 only, not width {config.width} and {'x'.join(map(str, shape))}: "
                "choose the cifar form"
            )
        from torchvision.models import alexnet  # takes a second, which the CIFAR form does not need

        net = alexnet(num_classes=classes, dropout=config.dropout)
        self.first, self.second, self.third = net.features[:3], net.features[3:6], net.features[6:]
        self.classifier = net.classifier

    def _features(self, images: Tensor) -> Tensor:
        return self.third(self.second(self.first(images))).flatten(1)

    def forward(self, images: Tensor) -> Tensor:
        return self.classifier(self._features(images))

    def stages(self) -> list[list[nn.Module]]:
        return [[self.first], [self.second], [self.third], [self.classifier]]
