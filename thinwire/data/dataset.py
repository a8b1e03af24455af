"""The contract of a data set, and laying it out on disk.

A module in `datasets/` defines one class `Dataset`. It finds or downloads images or texts, verifies them and
returns them. The engine then writes them to disk once, as four arrays of bytes with a manifest. This module
does not import torch.
"""

import mmap
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from thinwire.base import digests
from thinwire.base.errors import UserError
from thinwire.base.files import publish, writing
from thinwire.base.learning import CLASSIFICATION, NEXT_CHARACTER, TASKS, LearningTask
from thinwire.base.options import as_dict

# Of a data set that was laid out; the manifest lists the other files.
MANIFEST = "manifest.json"
SOURCES = "sources.csv"
# A folder inside the folder for downloads; it is deleted when the arrays of the data set are on disk.
SCRATCH = "scratch"
_PIXELS_AT_ONCE = 2**22


def array_files(task: LearningTask) -> dict[str, str]:
    """The file of each array of a data set, by its name in `Raw`."""
    named = {"inputs": task.inputs, "labels": "labels"}
    return {
        f"{part}_{what}": f"{part}_{name}.npy" for part in ("train", "test") for what, name in named.items()
    }


@dataclass(frozen=True)
class Augment:
    """How training images are augmented: cropped, and half of them flipped left to right."""

    pad: int = 0  # pixels of zeros put around an image before a crop of the original size is taken
    least_area: float | None = None  # least share of the area that a crop has; it is resized to the original
    flip: bool = False

    def __post_init__(self) -> None:
        if self.pad and self.least_area:
            raise ValueError("pad and least_area are two ways to crop: choose one")

    def __bool__(self) -> bool:
        """Whether it changes anything."""
        return bool(self.pad or self.least_area or self.flip)


class Raw(NamedTuple):
    """What `Dataset.fetch` returns: inputs and labels.

    Inputs that do not fit into memory may be a memory map of a whole file in the folder for downloads. The
    engine moves that file instead of copying it.
    """

    train_inputs: np.ndarray
    """Images, uint8 [N, C, H, W]; or windows of text, the numbers of their characters, uint8 [N, L]."""
    train_labels: np.ndarray
    """Integers from 0 to `classes` - 1: [N] of images; [N, L] of text, the character that follows each."""
    test_inputs: np.ndarray
    """As those to train on."""
    test_labels: np.ndarray
    """As those to train on."""
    sources: str | None = None
    """A CSV table with the name, bytes and SHA-256 of each file from which an input was decoded."""


class Dataset:
    """The base class of every data set."""

    task: ClassVar[str] = "classification"
    """What is learned: `classification` of images, or the `next_character` of a text. It is read without
    running the code, so assign a literal."""
    classes: int
    """The number of classes, or of different characters."""
    shape: tuple[int, ...]
    """The shape of one input: (C, H, W) of an image, (L,) of a window of text."""
    licence: ClassVar[str]
    """The licence of the images or texts, for the manifest."""
    source: ClassVar[str]
    """Where they come from, for the manifest."""
    reads_datasets: ClassVar[tuple[str, ...]] = ()
    """Other data sets that it loads by name, as a literal: an edit of theirs is one of its own."""
    clients: ClassVar[str | None] = None
    """What its natural clients are, in the plural, such as `plays`. None: those of images are their labels,
    and a text has none. It is read without running the code, so assign a literal."""
    augment: Augment = Augment()
    """The augmentation of the training images at every step; the default is none."""

    @dataclass
    class Config:
        """The options: each has a type, a default and a comment that says what it is."""

    def __init__(self, config: object = None) -> None:
        self.config: Any = config if config is not None else type(self).Config()

    @classmethod
    def learning(cls) -> LearningTask:
        """What its `task` names."""
        return TASKS[cls.task]

    def training_inputs(self) -> int | None:
        """Return the number of inputs to train on, if it is known before they are there; else None."""
        return None

    def client_of_each(self, labels: np.ndarray) -> np.ndarray:
        """Return the number of the natural client of each training input, [N]; numbers tell their order.

        Override it in a data set that declares `clients`. Neighbours go to the same worker.

        Args:
            labels: of the training inputs, as in `Raw`.
        """
        return labels

    def fetch(self, place: Path | None, download: Path) -> Raw:
        """Find or download the files, verify them and decode them.

        Called once, when `thinwire data` prepares the data set. Later runs read the arrays on disk.

        Args:
            place: the user's folder with the files. If None, look in this data set's usual places, or
                download the files.
            download: a folder in which to keep downloads. Its subfolder `SCRATCH` is for intermediate files,
                with which the next call continues after an interruption.

        Raises:
            UserError: a file is missing, truncated or not the expected one.
        """
        raise NotImplementedError


def lay_out(name: str, dataset: Dataset, folder: Path, place: Path | None, download: Path) -> None:
    """Fetch a data set and lay it out in `folder`: four arrays and the manifest, published at once."""
    raw, task = dataset.fetch(place, download), dataset.learning()
    _require_sound(name, dataset, raw)
    scratch = folder.with_name(f".{folder.name}.scratch")
    with writing(scratch):
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        if raw.sources is not None:
            (scratch / SOURCES).write_text(raw.sources)
        # The numbers of characters are names, which have no mean.
        mean, std = _statistics(raw.train_inputs) if task is CLASSIFICATION else ([], [])
        # What is moved comes last: it cannot be made again in no time.
        files = array_files(task)
        for field in sorted(files, key=lambda field: _is_a_file(getattr(raw, field))):
            dtype = np.uint8 if field.endswith("inputs") else np.int64
            _put(scratch / files[field], getattr(raw, field), dtype)
    manifest = {
        "name": name,
        "options": as_dict(dataset.config),
        "source": dataset.source,
        "licence": dataset.licence,
        "classes": dataset.classes,
        "shape": list(dataset.shape),
        "mean": mean,
        "std": std,
        # Applied while training; here so that a change of it is a change of the data.
        "augment": asdict(dataset.augment),
        "files": {
            path.name: {"bytes": path.stat().st_size, "sha256": digests.of_file(path)}
            for path in sorted(scratch.iterdir())
        },
    }
    if task is not CLASSIFICATION:
        manifest["task"] = task.name
    digests.write_json(scratch / MANIFEST, manifest)
    for path in scratch.iterdir():
        path.chmod(0o444)  # what took long to make is not overwritten by mistake
    publish(scratch, folder)
    shutil.rmtree(download / SCRATCH, ignore_errors=True)


def _is_a_file(array: np.ndarray) -> bool:
    """Is it a memory map of a whole file, and not of a part of one?"""
    return isinstance(array, np.memmap) and isinstance(array.base, mmap.mmap)


def _put(path: Path, array: np.ndarray, dtype: type) -> None:
    """Write an array as a file of its own; one that is such a file is moved."""
    if isinstance(array, np.memmap) and _is_a_file(array) and array.dtype == dtype:
        array.flush()
        shutil.move(str(array.filename), path)
    else:
        np.save(path, array.astype(dtype), allow_pickle=False)


def _require_sound(name: str, dataset: Dataset, raw: Raw) -> None:
    """What a data set hands over must be what its class declares."""
    for part in ("train", "test"):
        inputs, labels = getattr(raw, f"{part}_inputs"), getattr(raw, f"{part}_labels")
        what = dataset.learning().inputs
        if inputs.dtype != np.uint8 or inputs.shape != (len(labels), *dataset.shape):
            raise UserError(
                f"data set {name}: its {part} {what} are {inputs.dtype} {list(inputs.shape)} instead "
                f"of uint8 {[len(labels), *dataset.shape]}"
            )
        if dataset.learning() is NEXT_CHARACTER and labels.shape != inputs.shape:
            raise UserError(
                f"data set {name}: its {part} labels are {list(labels.shape)} instead of "
                f"{list(inputs.shape)}: each character of a window has one"
            )
        if labels.min() < 0 or labels.max() >= dataset.classes:
            raise UserError(
                f"data set {name}: its {part} labels reach from {labels.min()} to {labels.max()}, "
                f"but it declares {dataset.classes} classes"
            )


def _statistics(images: np.ndarray) -> tuple[list[float], list[float]]:
    """Mean and standard deviation by channel, from the counts of the 256 values."""
    mean, std = [], []
    values = np.arange(256)
    at_once = max(1, _PIXELS_AT_ONCE // images[0, 0].size)
    for channel in range(images.shape[1]):
        counts = np.zeros(256, np.int64)
        for start in range(0, len(images), at_once):
            part = images[start : start + at_once, channel]
            counts += np.bincount(part.ravel(), minlength=256)
        average = float((counts * values).sum() / counts.sum())
        variance = float((counts * (values - average) ** 2).sum() / counts.sum())
        mean.append(average)
        std.append(max(variance**0.5, 1e-6))
    return mean, std
