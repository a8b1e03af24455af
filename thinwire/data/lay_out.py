"""Laying a data set out on disk: four arrays of bytes and a manifest, once."""

import mmap
import shutil
from dataclasses import asdict
from pathlib import Path

import numpy as np

from thinwire.base import digests
from thinwire.base.errors import UserError
from thinwire.base.files import publish, writing
from thinwire.base.learning import CLASSIFICATION, NEXT_CHARACTER
from thinwire.base.options import as_dict
from thinwire.data.dataset import MANIFEST, SCRATCH, SOURCES, Dataset, Raw, array_files

_PIXELS_AT_ONCE = 2**22


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
