"""Imagenette: 9,469 training and 3,925 validation images of ten classes of ImageNet (fast.ai, version 2).

It is read from a folder with train/ and val/, or with one archive of them.
"""

from thinwire.data.image_folder import ImageFolder


class Dataset(ImageFolder):
    classes = 10
    expected = {"train": 9_469, "val": 3_925}  # noqa: RUF012
    licence = "Apache-2.0 for the selection; ImageNet's terms for the images"
    source = "https://github.com/fastai/imagenette"
    how_to_get = f"get imagenette2-160.tgz, imagenette2-320.tgz or imagenette2.tgz from {source}"
