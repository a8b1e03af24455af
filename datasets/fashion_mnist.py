"""Fashion-MNIST: 70,000 images of clothes, 28x28 grey pixels (Xiao et al., arXiv 1708.07747).

They are read from the folder that was given; without one, from Debian's package `dataset-fashion-mnist`, or
else from the official download. The four IDX files may be compressed; the checksum is that of their content.
"""

import gzip
import io
import struct
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field

import thinwire
from thinwire.data.cifar import fetch_file as fetch_file
from thinwire.data.cifar import is_official
from thinwire.data.dataset import Raw

_OFFICIAL = "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com"
_DEBIAN = Path("/usr/share/datasets/fashion-mnist")


class Dataset(thinwire.Dataset):
    @dataclass
    class Config:
        # Training images that are used: the first ones, whose order is random. The test set is always whole.
        images: Annotated[int, Field(ge=100, le=60_000)] = 60_000

    config: Config
    classes = 10
    shape = (1, 28, 28)
    licence = "MIT, Zalando SE"
    source = "https://github.com/zalandoresearch/fashion-mnist"
    augment = thinwire.Augment(pad=2, flip=True)

    # MD5 of the official compressed file.
    downloads = {  # noqa: RUF012
        "train-images-idx3-ubyte": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "train-labels-idx1-ubyte": "25c81989df183df01b3e8a0aad5dffbe",
        "t10k-images-idx3-ubyte": "bef4ecab320f06d8554ea6380940ec79",
        "t10k-labels-idx1-ubyte": "bb300cfdad3c16e7a12a480ee83cd310",
    }
    # SHA-256 of the uncompressed content.
    files = {  # noqa: RUF012
        "train-images-idx3-ubyte": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "train-labels-idx1-ubyte": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "t10k-images-idx3-ubyte": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "t10k-labels-idx1-ubyte": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    }

    def training_inputs(self) -> int:
        return self.config.images

    def fetch(self, place: Path | None, download: Path) -> Raw:
        folder = place or (_DEBIAN if _DEBIAN.is_dir() else self._download(download))
        arrays = [self._read(folder, name) for name in self.files]
        train_images, train_labels, test_images, test_labels = arrays
        used = slice(self.config.images)
        return Raw(train_images[used, None], train_labels[used], test_images[:, None], test_labels)

    def _download(self, folder: Path) -> Path:
        """Download the official files into `folder`."""
        for name, digest in self.downloads.items():
            fetch_file(
                f"{_OFFICIAL}/{name}.gz",
                folder / f"{name}.gz",
                digest,
                otherwise="install Debian's package dataset-fashion-mnist, or put the four files into a "
                "folder and name it: `thinwire data fashion_mnist --from PARENT/fashion_mnist`, or in the "
                "pipeline `--config data=PARENT`",
            )
        return folder

    def _read(self, folder: Path, name: str) -> np.ndarray:
        """The array in one IDX file, whose content is verified first."""
        path = next((p for p in (folder / f"{name}.gz", folder / name) if p.exists()), None)
        if path is None:
            raise thinwire.UserError(
                f"{folder} has neither {name}.gz nor {name}: put the four files of Fashion-MNIST there"
            )
        try:
            with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
                content = file.read()
        except (OSError, EOFError, zlib.error) as error:
            raise thinwire.UserError(
                f"{path} is truncated or damaged ({error}): delete it and fetch it again"
            ) from None
        if not is_official(io.BytesIO(content), self.files[name]):
            raise thinwire.UserError(
                f"{path} is not Fashion-MNIST's {name} (the SHA-256 of its content is not "
                f"{self.files[name]}): delete it and fetch it again"
            )
        dimensions = content[3]
        shape = struct.unpack(f">{dimensions}I", content[4 : 4 + 4 * dimensions])
        return np.frombuffer(content, np.uint8, offset=4 + 4 * dimensions).reshape(shape)
