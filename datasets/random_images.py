"""Random images of CIFAR-10's shape, with random labels: for suites that only count bytes.

Nothing can be learned from them. What a method sends does not depend on values, unless its docstring says so.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field

import thinwire
from thinwire.data.dataset import Raw

_TEST_IMAGES = 100


class Dataset(thinwire.Dataset):
    @dataclass
    class Config:
        images: Annotated[int, Field(ge=100, le=50_000)] = 100  # training images

    config: Config
    classes = 10
    shape = (3, 32, 32)
    licence = "CC0 1.0"
    source = "NumPy's generator PCG64 with seed 0"

    def training_inputs(self) -> int:
        return self.config.images

    def fetch(self, place: Path | None, download: Path) -> Raw:
        generator = np.random.Generator(np.random.PCG64(0))
        count = self.config.images + _TEST_IMAGES
        images = generator.integers(256, size=(count, *self.shape), dtype=np.uint8)
        # Every class has as many, so that a method which draws from each class finds some.
        labels = np.arange(count, dtype=np.int64) % self.classes
        split = self.config.images
        return Raw(images[:split], labels[:split], images[split:], labels[split:])
