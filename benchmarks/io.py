"""What reading images costs: thinwire's batches against torchvision's, and readers that share a file.

    python benchmarks/io.py [--images 1500] [--record]

It makes three comparisons in one run:
- Batches from memory, cropped and flipped, against PIL image by image; both on one thread.
- Batches from a memory map, on one thread, against torchvision's ImageFolder and DataLoader with a process
  for each core. Both read the same tree of JPEGs, first with a cold page cache and then with a warm one.
- Requests, seeks and megabytes a second of contiguous, strided and random readers, with a cold page cache.
"""

import io
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import record
import torch
from PIL import Image
from torch.utils.data import DataLoader
from torchvision import datasets, transforms

from thinwire.data import arrays, partition
from thinwire.data.arrays import Data
from thinwire.data.batches import Batches, RecordFile
from thinwire.data.dataset import Augment, lay_out
from thinwire.data.image_folder import ImageFolder
from thinwire.data.partition import Load

BATCH = 64
GRAIN = 38  # of 256 levels: for about 110 kB
MEMORY_TARGET, MAP_TARGET, SEEKS_TARGET = 7.0, 4.0, 0.1


def seconds(function):
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def out_of_cache(folder):
    """Remove the content of these files from the page cache."""
    for path in folder.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.fsync(descriptor)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def rate_of_batches(data, steps):
    """Images a second, without the first step."""
    batches = Batches(data, 1, BATCH, 1, torch.device("cpu"), torch.float32)
    batches.at(0)
    steps = min(steps, batches.steps_per_epoch - 1)
    return steps * BATCH / seconds(lambda: [batches.at(step) for step in range(1, steps + 1)])


def in_memory():
    """Images a second with CIFAR's shapes: of batches, and of PIL image by image."""
    images = np.random.default_rng(0).integers(0, 256, (20_000, 3, 32, 32), np.uint8)
    labels = torch.zeros(len(images), dtype=torch.int64)
    data = Data(
        "random",
        10,
        (3, 32, 32),
        Augment(pad=4, flip=True),
        (120.0,) * 3,
        (64.0,) * 3,
        torch.from_numpy(images),
        labels,
        torch.from_numpy(images[:1]),
        labels[:1],
        {},
    )

    class Samples(datasets.VisionDataset):
        def __init__(self, transform):
            super().__init__(root="", transform=transform)
            self.images = images.transpose(0, 2, 3, 1)

        def __len__(self):
            return len(self.images)

        def __getitem__(self, number):
            return self.transform(Image.fromarray(self.images[number])), 0

    steps = [
        transforms.RandomCrop(32, padding=4),
        transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize((0.47,) * 3, (0.25,) * 3),
    ]
    loader = DataLoader(Samples(transforms.Compose(steps)), BATCH, shuffle=True)
    iterator = iter(loader)
    next(iterator)
    theirs = 60 * BATCH / seconds(lambda: [next(iterator) for _ in range(60)])
    return rate_of_batches(data, 300), theirs


def make_tree(folder, count):
    """Write pictures of 500 x 375 pixels in ten classes, of about 110 kB each, ImageNet's average."""
    rng = np.random.default_rng(0)
    for part, images in (("train", count), ("val", 10)):
        for i in range(images):
            coarse = Image.fromarray(rng.integers(0, 256, (15, 20, 3), np.uint8))
            smooth = np.asarray(coarse.resize((500, 375), Image.Resampling.BICUBIC), np.int16)
            grain = rng.integers(-GRAIN, GRAIN + 1, (375, 500, 1), np.int16)
            file = io.BytesIO()
            picture = Image.fromarray(np.clip(smooth + grain, 0, 255).astype(np.uint8))
            picture.save(file, "JPEG", quality=90)
            path = folder / part / f"c{i % 10}" / f"{i:05d}.JPEG"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.getvalue())


class Tree(ImageFolder):
    classes = 10
    licence = source = how_to_get = "made here"


def of_a_tree(folder, count):
    """Compare the rates of a memory map and of ImageFolder, print them, and return the least ratio."""
    tree, laid, cores = folder / "tree", folder / "laid", os.cpu_count() or 1
    make_tree(tree, count)
    dataset = Tree()
    took = seconds(lambda: lay_out("tree", dataset, laid, tree, folder / "download"))
    print(
        f"decoded once: {count + 10} JPEGs in {took:.1f} s on {cores} cores, "
        f"{(count + 10) / took:.0f} images/s"
    )
    steps = [
        transforms.RandomResizedCrop(128, scale=(0.25, 1.0)),
        transforms.RandomHorizontalFlip(),
        transforms.ToTensor(),
        transforms.Normalize((0.47,) * 3, (0.25,) * 3),
    ]
    samples = datasets.ImageFolder(tree / "train", transforms.Compose(steps))
    ratios = []
    for cache in ("cold", "warm"):
        if cache == "cold":
            out_of_cache(folder)
        loader = DataLoader(samples, BATCH, shuffle=True, num_workers=cores, drop_last=True)
        iterator = iter(loader)
        next(iterator)  # its processes have begun
        theirs = (len(loader) - 1) * BATCH / seconds(lambda i=iterator: list(i))
        if cache == "cold":
            out_of_cache(folder)
        data = arrays.load(laid, dataset)
        if cache == "cold":
            out_of_cache(laid)
        ours = rate_of_batches(data, 1000)
        ratios.append(ours / theirs)
        print(
            f"{cache} cache: memory map {ours:.0f} images/s on one thread, ImageFolder {theirs:.0f} on "
            f"{cores} processes, ratio {ours / theirs:.1f}"
        )
    return min(ratios)


def at_random(count, readers, reader, batch):
    """The loads of one reader: its part of one permutation, read record by record."""
    drawn = np.random.default_rng(1).permutation(count)
    own = drawn[reader * count // readers : (reader + 1) * count // readers]
    for i in range(0, len(own), batch):
        yield Load([(number, number + 1) for number in own[i : i + batch].tolist()], own[i : i + batch])


def of_readers(folder):
    """Print what all readers read, and how fast, on as many records as ImageNet-mini has.

    Returns the contiguous readers' seeks, divided by the strided readers' seeks.
    """
    records, count, batch = 34_745, 8, 32
    folder.mkdir()
    path = folder / "records.npy"
    np.save(path, np.random.default_rng(0).integers(0, 256, (records, 3, 32, 32), np.uint8))
    chunk = partition.chunk_size(records, count)
    ways = {
        f"contiguous in chunks of {chunk}": lambda i: partition.contiguous(records, count, i, 0, 1),
        f"strided by batches of {batch}": lambda i: partition.strided(records, count, i, batch),
        "at random": lambda i: at_random(records, count, i, batch),
    }
    seeks = []
    for way, loads in ways.items():
        out_of_cache(folder)
        files = [RecordFile(path) for _ in range(count)]
        took = seconds(lambda f=files, w=loads: [f[i].read(load) for i in range(count) for load in w(i)])
        seeks.append(sum(file.seeks for file in files))
        read, requests = (sum(getattr(file, name) for file in files) for name in ("bytes_read", "requests"))
        rate = read / took / 1e6
        print(
            f"{count} readers, {way}: {requests} requests, {seeks[-1]} seeks, {read / 1e6:.0f} MB, "
            f"{rate:.0f} MB/s, cold"
        )
        for file in files:
            file.close()
    return seeks[0] / seeks[1]


def options(parser):
    parser.add_argument("--images", type=int, default=1500, help="JPEGs of the tree")


def main(arguments):
    torch.set_num_threads(1)
    ours, theirs = in_memory()
    print(f"in memory, 3x32x32: batches {ours:.0f} images/s, image by image {theirs:.0f}, both on one thread")
    with tempfile.TemporaryDirectory() as name:
        of_map = of_a_tree(Path(name), arguments.images)
        seeks = of_readers(Path(name) / "records")
    print(f"in memory: {ours / theirs:.1f} times the rate of single images (target >= {MEMORY_TARGET:g})")
    print(f"memory map: {of_map:.1f} times the rate of ImageFolder and DataLoader (target >= {MAP_TARGET:g})")
    print(f"contiguous readers: {seeks:.3f} of the strided readers' seeks (target <= {SEEKS_TARGET:g})")
    return 0 if ours / theirs >= MEMORY_TARGET and of_map >= MAP_TARGET and seeks <= SEEKS_TARGET else 1


if __name__ == "__main__":
    sys.exit(record.run(main, options))
