"""CIFAR-10: 60,000 images in 10 classes, 32x32 colour pixels (Krizhevsky, 2009).

They are read from the folder that was given; without one, from an earlier download or a new one. The archive
`cifar-10-binary.tar.gz` is preferred to `cifar-10-python.tar.gz`.
Both are verified by SHA-256 before they are read.
"""

from thinwire.data.cifar import Archive, Cifar

_TRAIN, _TEST = [f"data_batch_{i}" for i in range(1, 6)], "test_batch"


class Dataset(Cifar):
    classes = 10
    archives = [  # noqa: RUF012
        Archive(
            name="cifar-10-binary.tar.gz",
            sha256="c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
            train=tuple(f"{name}.bin" for name in _TRAIN),
            test=(f"{_TEST}.bin",),
            labels=0,
        ),
        Archive(
            name="cifar-10-python.tar.gz",
            sha256="6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce",
            train=tuple(_TRAIN),
            test=(_TEST,),
            labels="labels",
        ),
    ]
