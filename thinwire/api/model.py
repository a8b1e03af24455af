"""The contract of a model.

A module in `models/` defines one class `Model`. Its nested dataclass `Config` declares its options. The
engine passes the shape of an input and the number of classes. A network from a library is what `build`
returns. Other models define their layers in `__init__`, and `forward`. `stages` divides the layers by
resolution.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn


class Model(nn.Module):
    """The base class of every model.

    `forward` maps images [N, C, H, W] to logits [N, classes]; or windows of text, int64 [N, L], to logits
    [N, L, classes] of the characters that follow. The engine builds one replica for each worker. All replicas
    start with the same weights.
    """

    task: ClassVar[str] = "classification"
    """What it learns: `classification` of images, or the `next_character` of a text. It is read without
    running the code, so assign a literal."""

    @dataclass
    class Config:
        """The options: each has a type, a default and a comment that says what it is."""

    def __init__(self, config: Any, shape: tuple[int, ...], classes: int) -> None:
        """Build the layers and draw the initial weights.

        Called before training. The engine has seeded torch's default generator. Draw random numbers from it
        only.

        Args:
            config: an instance of `Config`, with the options of this model.
            shape: the shape of an input: (C, H, W) of images, (L,) of windows of text.
            classes: the number of classes, or of different characters, in the data set.
        """
        super().__init__()
        self.config = config
        self.network = self.build(shape, classes)

    def build(self, shape: tuple[int, ...], classes: int) -> nn.Module | None:
        """Return the whole network, for example one from torchvision.

        It maps inputs to logits, as `forward` does. Called by `__init__`; `self.config` has the options. The
        default is None, for models that define `__init__` and `forward` instead.

        Args:
            shape: the shape of an input: (C, H, W) of images, (L,) of windows of text.
            classes: the number of classes, or of different characters, in the data set.
        """
        return None

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits of inputs, see the class; the default asks the network of `build`."""
        if self.network is None:
            raise NotImplementedError("a model defines build, or __init__ and forward")
        logits: Tensor = self.network(images)
        return logits

    def stages(self) -> list[list[nn.Module]]:
        """Return the layers by resolution, from the input side to the output side.

        Methods that treat parts of the network differently may call this; training itself does not. Each
        parameter belongs to exactly one stage. The stem belongs to the first stage. The last stage is the
        classifier alone.
        """
        raise NotImplementedError


def initialise_he(model: nn.Module) -> None:
    """Draw He's initial weights for the convolutions (arXiv 1502.01852) and set their biases to zero."""
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            if module.bias is not None:
                nn.init.zeros_(module.bias)


class HalvingPool(nn.MaxPool2d):
    """2x2 max pooling that leaves maps of one pixel unchanged, so that deep models accept small images."""

    def __init__(self) -> None:
        super().__init__(2)

    def forward(self, maps: Tensor) -> Tensor:
        """Pool maps [N, C, H, W] to [N, C, H/2, W/2]."""
        return super().forward(maps) if min(maps.shape[-2:]) > 1 else maps
