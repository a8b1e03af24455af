"""ImageNet-mini: 34,745 training and 3,923 validation images of ImageNet's 1,000 classes (Kaggle).

Not mini-ImageNet, the set of 100 classes for learning from few examples. It is taken from a folder, which
holds train/ and val/, or one archive of them. One point of accuracy on its validation images is 39 of them.
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
