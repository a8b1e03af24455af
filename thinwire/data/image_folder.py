"""Data sets that are trees of images, {train,val}/CLASS/*.JPEG: ImageNet and sets with its layout."""

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from thinwire import seeds
from thinwire.data.dataset import SCRATCH, Augment, Dataset, Raw
from thinwire.data.decode import decode
from thinwire.data.image_tree import PARTS, ImageTree
from thinwire.errors import UserError


class ImageFolder(Dataset):
    """The base of these data sets: a subclass says which images are expected, and where to get them.

    The validation images are the test set. Training images are laid out in a random order.
    """

    expected: ClassVar[dict[str, int] | None] = None  # numbers of images in train and val; None: any number
    how_to_get: ClassVar[str]
    augment = Augment(least_area=0.25, flip=True)

    @dataclass
    class Config:
        size: Annotated[int, Field(ge=8, le=512)] = 128  # pixels of a side, to which images are resized once

    def __init__(self, config: object = None) -> None:
        super().__init__(config)
        self.size: int = self.config.size
        self.shape = (3, self.size, self.size)

    def training_images(self) -> int | None:
        """Return the number that is expected, if any."""
        return None if self.expected is None else self.expected["train"]

    def fetch(self, place: Path | None, download: Path) -> Raw:
        """Decode the tree in `place`, a folder with train/ and val/ or with one archive of them.

        Raises:
            UserError: the tree is missing, incomplete or unsafe.
        """
        if place is None:
            raise UserError(
                f"{self.how_to_get}, put it into a folder, and name that: `thinwire data NAME --from "
                "FOLDER`, or in the pipeline `--config data=PARENT` with PARENT/NAME"
            )
        tree = ImageTree(place)
        classes = tree.classes()
        self._require_whole(tree, classes)
        number = {name: label for label, name in enumerate(classes)}
        images, labels = [], []
        sources = io.StringIO()
        table = csv.writer(sources, lineterminator="\n")
        table.writerow(("name", "bytes", "sha256"))
        for part in PARTS:
            entries = [entry for entry in tree.entries if entry.part == part]
            rows = _shuffled(len(entries)) if part == "train" else np.arange(len(entries))
            made = decode(tree, entries, rows, self.size, download / SCRATCH / f"{part}.npy")
            in_rows = [entries[i] for i in np.argsort(rows)]
            images.append(made.images)
            labels.append(np.array([number[entry.class_name] for entry in in_rows]))
            table.writerows((e.name, e.bytes, bytes(d).hex()) for e, d in zip(in_rows, made.sha256))
        return Raw(images[0], labels[0], images[1], labels[1], sources.getvalue())

    def _require_whole(self, tree: ImageTree, classes: list[str]) -> None:
        if len(classes) != self.classes:
            raise UserError(
                f"{tree.path} has {len(classes)} classes instead of {self.classes}: {self.how_to_get}"
            )
        for part, count in (self.expected or {}).items():
            found = sum(entry.part == part for entry in tree.entries)
            if found != count:
                raise UserError(
                    f"{tree.path} has {found:,} images in {part}/ instead of {count:,}: {self.how_to_get}"
                )


def _shuffled(count: int) -> np.ndarray:
    """The row of each training image. A tree is sorted by class; contiguous readers need mixed classes."""
    return np.random.default_rng(seeds.derive("laid out", count)).permutation(count)
