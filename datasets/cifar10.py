"""CIFAR-10: 60,000 images in 10 classes, 32x32 colour pixels (Krizhevsky, 2009).

They are read from the folder that was given; without one, from an earlier download or a new one. The archive
`cifar-10-binary.tar.gz` is preferred to `cifar-10-python.tar.gz`. Both are verified before they are read, by
SHA-256 and by the MD5 of the official page.
"""

from thinwire.data.cifar_archive import Archive
from thinwire.data.cifar_dataset import Cifar

_TRAIN, _TEST = [f"data_batch_{i}" for i in range(1, 6)], "test_batch"


class Dataset(Cifar):
    classes = 10
    archives = [  # noqa: RUF012
        Archive(
            name="cifar-10-binary.tar.gz",
            md5="c32a1d4ab5d03f1284b67883e8d87530",
            sha256="c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
            train=tuple(f"{name}.bin" for name in _TRAIN),
            test=(f"{_TEST}.bin",),
            labels=0,
        ),
        Archive(
            name="cifar-10-python.tar.gz",
            md5="c58f30108f718f92721af3b95e74349a",
            sha256="6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
            train=tuple(_TRAIN),
            test=(_TEST,),
            labels="labels",
        ),
    ]
