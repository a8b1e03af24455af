"""The declaration of how training images are augmented. It stands apart so that it needs no torch."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Augment:
    """How training images are augmented: cropped, and half of them flipped left to right."""

    pad: int = 0  # pixels of zeros put around an image before a crop of the original size is taken
    least_area: float | None = None  # least share of the area that a crop has; it is resized to the original
    flip: bool = False

    def __post_init__(self) -> None:
        if self.pad and self.least_area:
            raise ValueError("pad and least_area are two ways to crop: choose one")

    def __bool__(self) -> bool:
        """Whether it changes anything."""
        return bool(self.pad or self.least_area or self.flip)
