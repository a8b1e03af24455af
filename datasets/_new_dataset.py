"""NAME: images of noise, 8x8 pixels, in which one row is brighter: the class. They are drawn."""

from pathlib import Path

import numpy as np

import thinwire
from thinwire.data.dataset import Raw


class Dataset(thinwire.Dataset):
    classes = 8
    shape = (1, 8, 8)  # channels, height and width of an image
    licence = "none is needed: it is drawn"
    source = "numpy's random numbers"

    def fetch(self, place: Path | None, download: Path) -> Raw:
        # Called once, by `thinwire data NAME`, which writes the arrays to disk. `place` is the folder after
        # --from, or None. Files are verified by a digest here, and downloads are kept in `download`. What is
        # wrong with a file is said in one sentence, by raising thinwire.UserError.
        train = self._draw(1600, seed=0)
        test = self._draw(400, seed=1)
        return Raw(*train, *test)

    def _draw(self, number: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        # Images are uint8 [N, C, H, W], labels integers from 0 to classes - 1, [N].
        random = np.random.RandomState(seed)
        images = random.randint(0, 128, (number, *self.shape)).astype(np.uint8)
        labels = random.randint(0, self.classes, number)
        images[np.arange(number), 0, labels] += 127
        return images, labels
