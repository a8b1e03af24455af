"""ImageNet-1K (ILSVRC 2012): 1,281,167 training and 50,000 validation images of 1,000 classes.

It is read from a folder with train/ and val/, each with a folder for each class, or with one archive of them.
The official validation images come without class folders and have to be sorted into them first.
"""

from thinwire.data.image_folder import ImageFolder


class Dataset(ImageFolder):
    classes = 1000
    expected = {"train": 1_281_167, "val": 50_000}  # noqa: RUF012
    licence = "ImageNet's terms: research and education only, no redistribution"
    source = "https://www.image-net.org/challenges/LSVRC/2012"
    how_to_get = (
        f"ImageNet-1K cannot be fetched without an account: get it from {source} under ImageNet's terms "
        "(research and education only), with train/CLASS/ and val/CLASS/"
    )
