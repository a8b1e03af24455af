"""A data set that was laid out on disk, as arrays in memory.

Every byte is verified before it is used: by one process of each node, for all of them.
"""

import mmap
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from thinwire.base import digests, seeds
from thinwire.base.errors import UserError
from thinwire.base.learning import CLASSIFICATION, LearningTask
from thinwire.base.options import as_dict
from thinwire.data.dataset import MANIFEST, SOURCES, Augment, Dataset, array_files

# Python knows the name from 3.13 on; elsewhere than on Linux the map does without.
_MAP_NORESERVE = 0x4000 if sys.platform == "linux" else 0
_HELD_OUT = 0.1  # of the training set
_SCORED_AT_ONCE = 500


class Rows:
    """Some rows of a tensor; an index takes from these rows only."""

    def __init__(self, whole: "Inputs", rows: Tensor) -> None:
        self._whole, self._rows = whole, rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, chosen: Tensor | slice) -> Tensor:
        return self._whole[self._rows[chosen]]

    def to(self, device: torch.device) -> "Rows":
        return Rows(self._whole.to(device), self._rows.to(device))


Inputs = Tensor | Rows


@dataclass(frozen=True)
class Data:
    """A whole data set in memory."""

    name: str
    classes: int
    shape: tuple[int, ...]  # (C, H, W) of images, (L,) of windows of text
    augment: Augment
    mean: tuple[float, ...]  # of the training images, by channel, in 0..255; () of text
    std: tuple[float, ...]
    train_inputs: Inputs  # uint8 [N, *shape]
    train_labels: Tensor  # int64 [N]; of text [N, L]
    test_inputs: Inputs
    test_labels: Tensor
    checksums: dict[str, str]  # SHA-256 of each file
    train_file: Path | None = None  # that holds exactly train_inputs; None: they are only in memory
    task: LearningTask = CLASSIFICATION
    clients: Tensor | None = None  # of each training input, int64 [N]; None: unknown, or not needed

    @property
    def digest(self) -> str:
        """Changes when anything of the data does."""
        return digests.of_object(self.checksums)


def load(
    folder: Path,
    dataset: Dataset,
    command: str = "`thinwire data`",
    verify: bool = True,
    progress: Callable[[str], None] = lambda what: None,
) -> Data:
    """Read a data set that was laid out in a folder; messages name the command that does so.

    With `verify`, which one process of a node needs, every byte is read, and `progress` is called again and
    again with a description.

    Raises:
        UserError: it was not laid out, or a file is missing, truncated or changed.
    """
    again = f"delete {folder} and prepare the data again"
    try:
        manifest = digests.read_json(folder / MANIFEST)
    except digests.Damaged as error:
        if not (folder / MANIFEST).exists():
            raise UserError(f"there is no data set in {folder}: prepare it with {command}") from None
        raise UserError(f"{error}: {again}") from None
    files = array_files(dataset.learning())
    if not _is_manifest(manifest, dataset.learning()):
        raise UserError(f"{folder / MANIFEST} is not the manifest of a data set: {again}")
    if manifest["options"] != as_dict(dataset.config):
        raise UserError(
            f"{folder} was laid out with the options {manifest['options']}, and asked for are "
            f"{as_dict(dataset.config)}: prepare it again with {command}, or give it another label"
        )
    if manifest["augment"] != asdict(dataset.augment):
        raise UserError(
            f"{folder} was laid out with the augmentation {manifest['augment']}, and its module now has "
            f"{asdict(dataset.augment)}: prepare it again with {command}"
        )
    for name, expected in manifest["files"].items():
        path = folder / name
        if not path.exists():
            raise UserError(f"{path} is missing: {again}")
        if path.stat().st_size != expected["bytes"]:
            raise UserError(
                f"{path} has {path.stat().st_size:,} bytes instead of {expected['bytes']:,}: {again}"
            )
        if verify and digests.of_file(path, progress) != expected["sha256"]:
            raise UserError(f"{path} is not the file that was prepared (its SHA-256 differs): {again}")
    tensors = {field: _mapped(folder / name) for field, name in files.items()}
    return Data(
        name=manifest["name"],
        classes=manifest["classes"],
        shape=tuple(manifest["shape"]),
        augment=dataset.augment,
        mean=tuple(manifest["mean"]),
        std=tuple(manifest["std"]),
        checksums={
            MANIFEST: digests.of_file(folder / MANIFEST),
            **{name: entry["sha256"] for name, entry in manifest["files"].items()},
        },
        train_file=folder / files["train_inputs"],
        task=dataset.learning(),
        **tensors,
    )


def _mapped(path: Path) -> Tensor:
    """An array's file as memory: all processes of a machine share its pages, and nobody changes the file.

    No room is set aside for changes, so that it may be larger than the memory.
    """
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    with path.open("rb") as file:
        pages = mmap.mmap(
            file.fileno(), 0, mmap.MAP_PRIVATE | _MAP_NORESERVE, mmap.PROT_READ | mmap.PROT_WRITE
        )
    return torch.from_numpy(np.frombuffer(pages, array.dtype, array.size, array.offset).reshape(array.shape))


def _is_manifest(content: dict[str, object], task: LearningTask) -> bool:
    """Does it have what `lay_out` writes for this task?"""
    keys = {"name", "options", "classes", "shape", "mean", "std", "augment", "files"}
    files = content["files"] if keys <= set(content) else None
    return isinstance(files, dict) and set(files) - {SOURCES} == set(array_files(task).values())


class Normalise:
    """Turns bytes into floating-point numbers with mean 0 and standard deviation 1 over the training set."""

    def __init__(self, data: Data, device: torch.device, dtype: torch.dtype) -> None:
        self._mean = torch.tensor(data.mean, dtype=dtype, device=device)[:, None, None]
        self._scale = 1 / torch.tensor(data.std, dtype=dtype, device=device)[:, None, None]

    def __call__(self, images: Tensor) -> Tensor:
        return images.to(self._mean.dtype).sub_(self._mean).mul_(self._scale)


def preparation(data: Data, device: torch.device, dtype: torch.dtype) -> Callable[[Tensor], Tensor]:
    """What turns the bytes of inputs into what a model takes: normalised images, or numbers of characters."""
    return Normalise(data, device, dtype) if data.task is CLASSIFICATION else Tensor.long


def scoring_batches(
    data: Data, device: torch.device, dtype: torch.dtype, scorer: int, of: int
) -> Iterator[tuple[int, Tensor, Tensor]]:
    """The number, inputs and labels of every `of`-th batch of the test set, from `scorer` on."""
    prepare = preparation(data, device, dtype)
    for batch in range(scorer, -(-len(data.test_inputs) // _SCORED_AT_ONCE), of):
        part = slice(batch * _SCORED_AT_ONCE, (batch + 1) * _SCORED_AT_ONCE)
        yield batch, prepare(data.test_inputs[part].to(device)), data.test_labels[part].to(device)


def held_out(data: Data) -> Data:
    """The same data for tuning: a fixed part of the *training* set stands in for the test set.

    Which part depends on the data set alone, so that every method is tuned on the same inputs. Of a text it
    is the end, because windows between others of their work would hold few surprises.
    """
    if data.task is CLASSIFICATION:
        generator = torch.Generator().manual_seed(seeds.derive("held out", data.name))
        order = torch.randperm(len(data.train_inputs), generator=generator)
    else:
        order = torch.arange(len(data.train_inputs)).flip(0)
    count = round(_HELD_OUT * len(order))
    held, kept = order[:count].sort().values, order[count:].sort().values
    return replace(
        data,
        train_inputs=Rows(data.train_inputs, kept),
        train_labels=data.train_labels[kept],
        test_inputs=Rows(data.train_inputs, held),
        test_labels=data.train_labels[held],
        train_file=None,
        clients=None if data.clients is None else data.clients[kept],
    )
