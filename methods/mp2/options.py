"""The options, and the constants that `preset: published` puts in their place."""

from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

from pydantic import Field

from thinwire import Model

# The authors' constants where they differ from those of their VGG, which are the defaults: by our model.
LENET: dict[str, Any] = {"prefixes_per_batch": 50, "predictor_epochs": 10, "images_share": 1.0}
ALEXNET: dict[str, Any] = {"predictor_epochs": 5, "bsp_workers": 4}
RESNET_18_ON_10_CLASSES: dict[str, Any] = {"prefixes_per_batch": 200, "images_share": 0.1}


@dataclass
class Options:
    pushed_stages: Annotated[int, Field(ge=1)] = (
        2  # number of first stages that are trained and pushed; the others are predicted
    )
    predictor: Literal["trained", "constant"] = "trained"  # constant: it ignores what is pushed
    preset: Literal["published"] | None = None  # the authors' constants for this model, and pushes in 64 bits
    bsp_workers: Annotated[int, Field(ge=1)] = 8  # workers of the dense run from which it is prepared
    prefixes_per_epoch: Annotated[int, Field(ge=1)] = 15  # steps of that run whose prefix is kept
    prefixes_per_batch: Annotated[int, Field(ge=1)] = 25  # one of them, at random, trains the predictor
    predictor_epochs: Annotated[int, Field(ge=1)] = 30  # passes over the prefixes
    predictor_lr: Annotated[float, Field(gt=0)] = 1e-3  # learning rate of the predictor's Adam
    images_share: Annotated[float, Field(gt=0, le=1)] = 0.25  # of each class, drawn anew for each batch
    images_per_step: Annotated[int, Field(ge=1)] = 125  # images in one step of the predictor's training

    def __post_init__(self) -> None:
        decided = sorted({*LENET, *ALEXNET, *RESNET_18_ON_10_CLASSES})
        given = [name for name in decided if getattr(self, name) != getattr(Options, name)]
        if self.preset == "published" and given:
            raise ValueError(f"preset: published decides {', '.join(given)}: leave that out")


def with_authors_constants(config: Options, name: str, model: Model, classes: int) -> Options:
    """The options of a preparation: with `preset: published` they have the authors' constants.

    Args:
        config: the options of the method.
        name: of the module of the model.
        model: the model itself.
        classes: of the data set.
    """
    if config.preset is None:
        return config
    constants = {"lenet": LENET, "mp2_alexnet": ALEXNET}.get(name, {})
    if name == "mp2_resnet" and model.config.depth == 18 and classes == 10:
        constants = RESNET_18_ON_10_CLASSES
    return replace(config, preset=None, **constants)
