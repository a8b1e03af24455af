"""Digits: 1,797 handwritten digits of 8x8 pixels, which come with thinwire; nothing is downloaded.

They are the test part of the UCI data set, as scikit-learn ships it. 13 persons wrote them, but the data do
not say who wrote which. So the test set is a fixed random part, with the same share of each digit. Pixels
have values from 0 to 16, which are scaled to 0 to 240.
"""

from pathlib import Path

import numpy as np

import thinwire
from thinwire.base import digests
from thinwire.data.dataset import Raw

_FILE = Path(__file__).with_name("digits.npz")
_SHA256 = "b2dab7b501728c22e9119ad76740b2e17c77a231e42d1e592380d90886f1a05e"
_TEST_SHARE = 0.3


class Dataset(thinwire.Dataset):
    classes = 10
    shape = (1, 8, 8)
    licence = "CC BY 4.0, E. Alpaydin and C. Kaynak; see datasets/digits.LICENSE.md"
    source = "https://archive.ics.uci.edu/dataset/80 (test part), by way of scikit-learn"

    def training_inputs(self) -> int:
        return 1258

    def fetch(self, place: Path | None, download: Path) -> Raw:
        path = place / _FILE.name if place else _FILE
        if not path.exists() or digests.of_file(path) != _SHA256:
            raise thinwire.UserError(
                f"{path} is missing or damaged (its SHA-256 is not the recorded one): "
                "restore it from the repository"
            )
        with np.load(path, allow_pickle=False) as content:
            images, labels = content["images"][:, None] * 15, content["labels"]
        shuffled = np.random.RandomState(0).permutation(len(labels))
        test = np.concatenate(
            [of_digit[: round(_TEST_SHARE * len(of_digit))] for of_digit in _by_digit(shuffled, labels)]
        )
        train = np.setdiff1d(shuffled, test)
        test.sort()
        return Raw(images[train], labels[train], images[test], labels[test])


def _by_digit(order: np.ndarray, labels: np.ndarray) -> list[np.ndarray]:
    """For each digit, the positions of its images, in the given order."""
    return [order[labels[order] == digit] for digit in range(10)]
