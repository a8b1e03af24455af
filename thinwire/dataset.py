"""The contract of a data set.

A module in `datasets/` defines one class `Dataset`: how the images are found or fetched, verified and
handed over. The engine lays them out once as arrays of bytes, with a manifest (see `data.arrays`).
"""

from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np

from thinwire.data.augment import Augment


class Raw(NamedTuple):
    """Images as uint8 [N, C, H, W] and labels as integers [N]."""

    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray


class Dataset:
    """The base of every data set."""

    classes: ClassVar[int]
    shape: ClassVar[tuple[int, int, int]]  # (C, H, W)
    licence: ClassVar[str]
    source: ClassVar[str]
    augment: ClassVar[Augment] = Augment()

    def fetch(self, place: Path | None, download: Path) -> Raw:
        """Find or fetch the files, verify them and parse them.

        Args:
            place: a folder of the user's in which the files lie; None: look where this data set looks.
            download: a folder in which to keep what has to be downloaded.

        Raises:
            UserError: a file is missing, truncated or not the one that it should be.
        """
        raise NotImplementedError
