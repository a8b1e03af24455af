"""The contract of a data set.

A module in `datasets/` defines one class `Dataset`: how the images are found or fetched, verified and
handed over. The engine lays them out once as arrays of bytes, with a manifest (see `data.layout`).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from thinwire.data.augment import Augment

# In the folder for downloads: what is deleted when the data set is laid out.
SCRATCH = "scratch"


class Raw(NamedTuple):
    """Images as uint8 [N, C, H, W] and labels as integers [N].

    Images that do not fit into memory are a memory map of a whole file in the folder for downloads; the file
    is moved into place.
    """

    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray
    sources: str | None = None  # CSV: name, bytes and SHA-256 of each file that an image was decoded from


class Dataset:
    """The base of every data set."""

    classes: int
    shape: tuple[int, int, int]  # (C, H, W)
    licence: ClassVar[str]
    source: ClassVar[str]
    augment: Augment = Augment()

    @dataclass
    class Config:
        """The options: typed, each with a default and a comment that says what it is."""

    def __init__(self, config: Any = None) -> None:
        self.config = config if config is not None else type(self).Config()

    def fetch(self, place: Path | None, download: Path) -> Raw:
        """Find or fetch the files, verify them and parse them.

        Args:
            place: a folder of the user's in which the files lie; None: look where this data set looks.
            download: a folder in which to keep what has to be downloaded, and in `SCRATCH` under it what an
                interrupted call goes on with.

        Raises:
            UserError: a file is missing, truncated or not the one that it should be.
        """
        raise NotImplementedError
