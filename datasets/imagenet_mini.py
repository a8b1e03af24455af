"""ImageNet-mini: 34,745 training and 3,923 validation images of ImageNet's 1,000 classes (Kaggle).

This is not mini-ImageNet, the set of 100 classes for learning from few examples. It is read from a folder
with train/ and val/, or with one archive of them. One percent of its validation images are 39 images.
"""

from thinwire.data.image_folder import ImageFolder


class Dataset(ImageFolder):
    classes = 1000
    expected = {"train": 34_745, "val": 3_923}  # noqa: RUF012
    licence = "ImageNet's terms: research and education only, no redistribution"
    source = "https://www.kaggle.com/datasets/ifigotin/imagenetmini-1000"
    how_to_get = (
        f"ImageNet-mini cannot be fetched without an account: get it from {source} under ImageNet's terms "
        "(research and education only)"
    )
