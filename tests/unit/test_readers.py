"""Readers that share a file: every record once an epoch, in what order, at which cost."""

import threading
from dataclasses import replace
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from tests import small
from tests.fake_gpu import CUDA
from thinwire.data import partition
from thinwire.data.arrays import held_out
from thinwire.data.batches import Batches, Prefetched, RecordFile

RECORDS = 1003
WAYS = {
    "contiguous": lambda n, i, epoch: partition.contiguous(RECORDS, n, i, epoch, seed=5),
    "strided": lambda n, i, epoch: partition.strided(RECORDS, n, i, batch=5),
}


@pytest.fixture
def file(tmp_path):
    content = np.random.default_rng(0).integers(0, 256, (RECORDS, 3, 4, 4), np.uint8)
    np.save(tmp_path / "records.npy", content)
    return tmp_path / "records.npy", content


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("count", [1, 3, 8])
@pytest.mark.parametrize("epoch", [0, 1, 7])
def test_every_record_is_read_exactly_once_an_epoch(way, count, epoch, file):
    path, content = file
    seen = []
    for reader in range(count):
        records = RecordFile(path)
        for load in WAYS[way](count, reader, epoch):
            assert np.array_equal(records.read(load), content[load.order])
            seen += load.order.tolist()
        records.close()
    assert sorted(seen) == list(range(RECORDS))


@pytest.mark.parametrize(("way", "least", "most"), [("contiguous", 4, 4 * 9), ("strided", 201, 201)])
def test_bytes_and_seeks_are_those_of_each_way(way, least, most, file):
    """A range of 250 or 251 records has nine chunks, of which two may come in the order of the file."""
    path, content = file
    opened = [RecordFile(path) for _ in range(4)]
    for reader, records in enumerate(opened):
        for load in WAYS[way](4, reader, 0):
            records.read(load)
        records.close()
    assert sum(records.bytes_read for records in opened) == content.nbytes
    assert least <= sum(records.seeks for records in opened) <= most


def test_a_chunk_that_begins_where_the_last_one_ended_needs_no_seek(file):
    records = RecordFile(file[0])
    records.read(partition.Load([(0, 10), (10, 20), (5, 6)], np.array([12, 3, 5])))
    assert records.seeks == 2
    records.close()


def test_what_is_shuffled_together_was_read_together():
    loads = list(WAYS["contiguous"](2, 0, 0))
    assert [len(load.ranges) for load in loads] == [8, 1]
    for load in loads:
        read = np.concatenate([np.arange(*own) for own in load.ranges])
        assert sorted(read.tolist()) == sorted(load.order.tolist())
        assert not np.array_equal(read, load.order)


def batches(workers, batch, reading, data=None):
    data = data or small.digits(120)
    return Batches(data, workers, batch, 3, torch.device("cpu"), torch.float64, reading=reading)


def test_training_reads_contiguously_where_the_recipe_says_so():
    """Each worker sees one range, every image once, and all ranges in turn; each time in another order."""
    data = small.digits(120)
    run = batches(4, 5, "contiguous", replace(data, train_labels=torch.arange(120)))
    orders = {}
    for epoch, worker in product(range(5), range(4)):
        seen = [run.at(6 * epoch + step)[worker][1] for step in range(6)]
        numbers = orders[worker, epoch] = torch.cat(seen).tolist()
        own = (worker + epoch) % 4
        assert sorted(numbers) == list(range(30 * own, 30 * own + 30)) != numbers
    assert orders[0, 0] != orders[0, 4]


@pytest.fixture
def in_a_file(tmp_path):
    """Digits whose training images are in a file, and other images in memory, which nothing should use."""
    data, path = small.digits(120), tmp_path / "train_images.npy"
    np.save(path, data.train_inputs.numpy())
    return replace(data, train_inputs=torch.zeros_like(data.train_inputs), train_file=path)


@pytest.mark.parametrize("prefetched", [False, True])
@pytest.mark.parametrize("reading", ["random", "strided", "contiguous"])
def test_a_reader_gives_the_images_that_are_in_memory(in_a_file, reading, prefetched):
    """In steps that are not in order, too, as after an interruption."""
    data = None if reading == "random" else in_a_file
    read, kept = batches(4, 5, reading, data), batches(4, 5, reading)
    read = Prefetched(read, steps=14) if prefetched else read
    for step in (0, 1, 2, 5, 6, 3, 13):
        for own, other in zip(read.at(step), kept.at(step), strict=True):
            assert all(map(torch.equal, own, other))


def test_with_strides_the_workers_share_the_batches_of_the_file_in_its_order(in_a_file):
    run = batches(4, 5, "strided")
    labels = torch.cat([labels for step in range(6) for _, labels in run.at(step)])
    assert torch.equal(labels, small.digits(120).train_labels)
    assert torch.equal(labels[:5], run.at(6)[0][1]), "every epoch has the same order"
    # A held-out part is not read from the file of the whole.
    assert held_out(in_a_file).train_file is None


def test_the_next_batch_is_made_by_a_thread_before_anybody_asks_for_it(monkeypatch):
    made, made_second = [], threading.Event()
    run = batches(4, 5, "contiguous")
    at = run.at

    def noted(step):
        made.append((step, threading.current_thread() is threading.main_thread()))
        if step == 1:
            made_second.set()
        return at(step)

    monkeypatch.setattr(run, "at", noted)
    ahead = Prefetched(run, steps=2)
    ahead.at(0)
    assert made_second.wait(timeout=60)
    ahead.at(1)
    assert made == [(0, False), (1, False)], "there is no third step"


def test_a_gpu_makes_the_next_batch_beside_the_step_that_the_worker_computes(gpu, monkeypatch):
    """The training set arrives after 10 seconds; a batch takes 3 of them, and a step 5."""
    of_worker, current, readers = gpu.current, [], []
    monkeypatch.setattr(torch.cuda, "set_device", current.append)
    tensor = SimpleNamespace(device=CUDA, record_stream=readers.append)

    def at(step):
        gpu.put(3)
        return [(tensor, tensor)]

    gpu.put(10)
    ahead = Prefetched(SimpleNamespace(device=CUDA, steps_per_epoch=4, at=at), steps=4)
    for step in range(4):
        ahead.at(step)
        gpu.put(5)
        ahead._next[1].result()
    assert (gpu.host, gpu.synchronised) == (0, 0), "the host waits for nothing"
    assert of_worker.until == 10 + 3 + 4 * 5
    assert readers == 8 * [of_worker], "the allocator knows who reads the batches"
    assert current == [CUDA], "the thread uses the worker's GPU"


def test_an_error_of_the_thread_is_raised_where_the_batch_is_used(monkeypatch):
    run = batches(4, 5, "contiguous")
    monkeypatch.setattr(run, "at", lambda step: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        Prefetched(run, steps=2).at(0)
