"""The contract of a data set.

A module in `datasets/` defines one class `Dataset`. It finds or downloads images or texts, verifies them and
returns them. The engine then writes them to disk once, as arrays of bytes with a manifest (see
`thinwire.data.lay_out`). This module does not import torch.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from thinwire.base.learning import TASKS, LearningTask

# Of a data set that was laid out; the manifest lists the other files.
MANIFEST = "manifest.json"
SOURCES = "sources.csv"
# A folder inside the folder for downloads; it is deleted when the arrays of the data set are on disk.
SCRATCH = "scratch"


def array_files(task: LearningTask) -> dict[str, str]:
    """The file of each array of a data set, by its name in `Raw`."""
    named = {"inputs": task.inputs, "labels": "labels"}
    return {
        f"{part}_{what}": f"{part}_{name}.npy" for part in ("train", "test") for what, name in named.items()
    }


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


class Raw(NamedTuple):
    """What `Dataset.fetch` returns: inputs and labels.

    Inputs that do not fit into memory may be a memory map of a whole file in the folder for downloads. The
    engine moves that file instead of copying it.
    """

    train_inputs: np.ndarray
    """Images, uint8 [N, C, H, W]; or windows of text, the numbers of their characters, uint8 [N, L]."""
    train_labels: np.ndarray
    """Integers from 0 to `classes` - 1: [N] of images; [N, L] of text, the character that follows each."""
    test_inputs: np.ndarray
    """As those to train on."""
    test_labels: np.ndarray
    """As those to train on."""
    sources: str | None = None
    """A CSV table with the name, bytes and SHA-256 of each file from which an input was decoded."""


class Dataset:
    """The base class of every data set."""

    task: ClassVar[str] = "classification"
    """What is learned: `classification` of images, or the `next_character` of a text. It is read without
    running the code, so assign a literal."""
    classes: int
    """The number of classes, or of different characters."""
    shape: tuple[int, ...]
    """The shape of one input: (C, H, W) of an image, (L,) of a window of text."""
    licence: ClassVar[str]
    """The licence of the images or texts, for the manifest."""
    source: ClassVar[str]
    """Where they come from, for the manifest."""
    reads_datasets: ClassVar[tuple[str, ...]] = ()
    """Other data sets that it loads by name, as a literal: an edit of theirs is one of its own."""
    clients: ClassVar[str | None] = None
    """What its natural clients are, in the plural, such as `plays`. None: those of images are their labels,
    and a text has none. It is read without running the code, so assign a literal."""
    augment: Augment = Augment()
    """The augmentation of the training images at every step; the default is none."""

    @dataclass
    class Config:
        """The options: each has a type, a default and a comment that says what it is."""

    def __init__(self, config: Any = None) -> None:
        self.config: Any = config if config is not None else type(self).Config()

    @classmethod
    def learning(cls) -> LearningTask:
        """What its `task` names."""
        return TASKS[cls.task]

    def training_inputs(self) -> int | None:
        """Return the number of inputs to train on, if it is known before they are there; else None."""
        return None

    def client_of_each(self, labels: np.ndarray) -> np.ndarray:
        """Return the number of the natural client of each training input, [N]; numbers tell their order.

        Override it in a data set that declares `clients`. Neighbours go to the same worker.

        Args:
            labels: of the training inputs, as in `Raw`.
        """
        return labels

    def fetch(self, place: Path | None, download: Path) -> Raw:
        """Find or download the files, verify them and decode them.

        Called once, when `thinwire data` prepares the data set. Later runs read the arrays on disk.

        Args:
            place: the user's folder with the files. If None, look in this data set's usual places, or
                download the files.
            download: a folder in which to keep downloads. Its subfolder `SCRATCH` is for intermediate files,
                with which the next call continues after an interruption.

        Raises:
            UserError: a file is missing, truncated or not the expected one.
        """
        raise NotImplementedError
