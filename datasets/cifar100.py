"""CIFAR-100: 60,000 images in 100 classes, 32x32 colour pixels, fine labels (Krizhevsky, 2009).

They are read from the folder that was given; without one, from an earlier download or a new one. The archive
`cifar-100-binary.tar.gz` is preferred to `cifar-100-python.tar.gz`.
Both are verified by SHA-256 before they are read.
"""

from thinwire.data.cifar import Archive, Cifar


class Dataset(Cifar):
    classes = 100
    archives = [  # noqa: RUF012
        Archive(
            name="cifar-100-binary.tar.gz",
            sha256="58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
            train=("train.bin",),
            test=("test.bin",),
            labels=1,  # the second label byte; the first is the coarse label
            label_bytes=2,
        ),
        Archive(
            name="cifar-100-python.tar.gz",
            sha256="85cd44d02ba6437773c5bbd22e183051d648de2e7d6b014e1ef29b855ba677a7",
            train=("train",),
            test=("test",),
            labels="fine_labels",
        ),
    ]
