"""What CIFAR-10 and CIFAR-100 have in common: shape, source, and the crops and flips of training images."""

from pathlib import Path
from typing import ClassVar

from thinwire.data.cifar_archive import IMAGE, ORIGIN, Archive, find, read
from thinwire.data.dataset import Augment, Dataset, Raw


class Cifar(Dataset):
    """The base of CIFAR's data sets: a subclass names the archives and gives the number of classes."""

    archives: ClassVar[list[Archive]]
    shape = IMAGE
    licence = "none stated; cite Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009"
    source = f"{ORIGIN}/cifar.html"
    augment = Augment(pad=4, flip=True)

    def training_images(self) -> int:
        """Return the number that CIFAR-10 and CIFAR-100 have."""
        return 50_000

    def fetch(self, place: Path | None, download: Path) -> Raw:
        """Find or fetch one of the archives, verify it and read it."""
        train, test = read(*find(self.archives, place, download))
        return Raw(*train, *test)
