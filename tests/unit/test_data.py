"""Data sets on disk, batches, augmentation, downloads."""

import gzip
import hashlib
import http.server
import socket
import struct
import threading
import time
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests import small
from tests.waiting import until
from thinwire import plugins
from thinwire.config import expand_suite
from thinwire.data import arrays, lay_out
from thinwire.data import download as fetching
from thinwire.data.augmentation import _beta, augmented, mixup
from thinwire.data.batches import Batches, held_out
from thinwire.data.dataset import Augment
from thinwire.data.download import download
from thinwire.errors import UserError
from thinwire.train.cell_task import task_of
from thinwire.train.result_folders import data_folder

CPU = torch.device("cpu")


@pytest.fixture
def digits_folder(tmp_path):
    dataset = plugins.get("dataset", "digits").load()()
    lay_out.lay_out("digits", dataset, tmp_path / "digits", None, tmp_path / "download")
    return tmp_path / "digits", dataset


def test_digits_are_all_there_and_no_test_image_is_trained_on(digits_folder):
    data = arrays.load(*digits_folder)
    assert len(data.train_images) + len(data.test_images) == 1797
    train = {image.numpy().tobytes() for image in data.train_images}
    shared = sum(image.numpy().tobytes() in train for image in data.test_images)
    assert shared == 0
    shares = torch.bincount(data.test_labels) / (
        torch.bincount(data.test_labels) + torch.bincount(data.train_labels)
    )
    assert float(shares.min()) > 0.29
    assert float(shares.max()) < 0.31


def test_the_manifest_has_mean_and_deviation_of_the_training_images(digits_folder):
    data = arrays.load(*digits_folder)
    pixels = data.train_images.double()
    assert data.mean[0] == pytest.approx(float(pixels.mean()))
    assert data.std[0] == pytest.approx(float(pixels.std(correction=0)))


def test_laying_out_twice_gives_the_same_bytes(digits_folder, tmp_path):
    folder, dataset = digits_folder
    lay_out.lay_out("digits", dataset, tmp_path / "again", None, tmp_path / "download")
    for path in folder.iterdir():
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes()


def test_what_is_held_out_for_tuning_comes_from_the_training_set(digits_folder):
    data = arrays.load(*digits_folder)
    tuning = held_out(data)
    assert len(tuning.test_images) == round(0.1 * len(data.train_images))
    assert len(tuning.train_images) + len(tuning.test_images) == len(data.train_images)
    both = {i.numpy().tobytes() for i in [*tuning.train_images[:], *tuning.test_images[:]]}
    assert both == {i.numpy().tobytes() for i in data.train_images}
    assert torch.equal(tuning.test_images[:], held_out(data).test_images[:])
    again = held_out(tuning, 0.5)  # of a preparation in a suite that tunes
    inner = {i.numpy().tobytes() for i in [*again.train_images[:], *again.test_images[:]]}
    assert inner == {i.numpy().tobytes() for i in tuning.train_images[:]}


def write_idx(path, array, compressed):
    header = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
    content = header + array.astype(np.uint8).tobytes()
    if compressed:
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(content))
    else:
        path.write_bytes(content)
    return hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("compressed", [True, False])
def test_fashion_mnist_reads_the_official_format(tmp_path, monkeypatch, compressed):
    dataset = plugins.get("dataset", "fashion_mnist").load()
    rng = np.random.default_rng(0)
    made = {
        "train-images-idx3-ubyte": rng.integers(0, 256, (30, 28, 28)),
        "train-labels-idx1-ubyte": rng.integers(0, 10, 30),
        "t10k-images-idx3-ubyte": rng.integers(0, 256, (20, 28, 28)),
        "t10k-labels-idx1-ubyte": rng.integers(0, 10, 20),
    }
    digests = {name: write_idx(tmp_path / name, a, compressed) for name, a in made.items()}
    monkeypatch.setattr(dataset, "files", digests)
    lay_out.lay_out("fashion_mnist", dataset(), tmp_path / "laid", tmp_path, tmp_path)
    data = arrays.load(tmp_path / "laid", dataset())
    assert data.train_images.shape == (30, 1, 28, 28)
    assert np.array_equal(data.test_images[:, 0].numpy(), made["t10k-images-idx3-ubyte"])
    assert np.array_equal(data.train_labels.numpy(), made["train-labels-idx1-ubyte"])


def test_a_part_of_fashion_mnist_has_the_first_training_images_and_the_whole_test_set(tmp_path, monkeypatch):
    dataset = plugins.get("dataset", "fashion_mnist").load()
    made = {
        "train-images-idx3-ubyte": np.arange(300)[:, None, None] % 256 * np.ones((28, 28), int),
        "train-labels-idx1-ubyte": np.arange(300) % 10,
        "t10k-images-idx3-ubyte": np.zeros((200, 28, 28), int),
        "t10k-labels-idx1-ubyte": np.arange(200) % 10,
    }
    monkeypatch.setattr(
        dataset, "files", {name: write_idx(tmp_path / name, a, False) for name, a in made.items()}
    )
    raw = dataset(dataset.Config(images=120)).fetch(tmp_path, tmp_path)
    assert raw.train_images[:, 0, 0, 0].tolist() == list(range(120))
    assert raw.train_labels.tolist() == [number % 10 for number in range(120)]
    assert len(raw.test_images) == len(raw.test_labels) == 200


def batches(workers, batch, data=None):
    return Batches(data or small.digits(), workers, batch, 3, CPU, torch.float64)


def test_an_epoch_shows_every_image_once():
    run = batches(4, 5)
    seen = torch.cat([images for step in range(6) for images, _ in run.at(step)])
    assert run.steps_per_epoch == 6
    assert len(torch.unique(seen.flatten(1), dim=0)) == len(
        torch.unique(small.digits().train_images.flatten(1), dim=0)
    )


def test_workers_share_the_batch_that_one_worker_would_see():
    alone, shared = batches(1, 20), batches(4, 5)
    for step in (0, 5, 6, 13):
        whole = alone.at(step)[0][0]
        assert torch.equal(whole, torch.cat([images for images, _ in shared.at(step)]))


def test_epochs_have_different_orders_and_any_step_can_be_asked_for():
    run = batches(1, 20)
    first, second = run.at(0)[0][0], run.at(6)[0][0]
    assert not torch.equal(first, second)
    assert torch.equal(run.at(0)[0][0], first)


def test_a_batch_larger_than_the_training_set_is_refused():
    with pytest.raises(UserError, match="digits has 120"):
        batches(4, 31)


def test_augmentation_is_the_workers_own():
    """The images of worker 1 do not depend on how many workers there are beside it."""
    data = small.digits(pad=2)
    images = data.train_images[:10].double()

    def stream(worker):
        return torch.Generator().manual_seed(100 + worker)

    two = augmented(images, data.augment, [stream(0), stream(1)])
    alone = augmented(images[5:], data.augment, [stream(1)])
    assert torch.equal(two[5:], alone)
    assert not torch.equal(two, images)


def test_a_crop_is_a_shift_with_zeros_at_the_border():
    image = torch.arange(1, 17, dtype=torch.uint8).view(1, 1, 4, 4)
    seen = set()
    for seed in range(200):
        out = augmented(image, Augment(pad=1), [torch.Generator().manual_seed(seed)])
        padded = torch.nn.functional.pad(image, [1] * 4)
        windows = [padded[:, :, y : y + 4, x : x + 4] for y in range(3) for x in range(3)]
        (place,) = [i for i, window in enumerate(windows) if torch.equal(out, window)]
        seen.add(place)
    assert seen == set(range(9))


def test_a_flip_mirrors_half_of_the_images():
    images = torch.arange(4, dtype=torch.uint8).view(1, 1, 1, 4).repeat(2000, 1, 1, 1)
    out = augmented(images, Augment(flip=True), [torch.Generator().manual_seed(0)])
    mirrored = (out == images.flip(-1)).all(dim=(1, 2, 3)).sum()
    assert 900 < int(mirrored) < 1100


def test_a_crop_that_is_resized_is_a_window_stretched_to_the_whole():
    """A ramp stays a ramp: what it spans is the window's size, where it begins is its place."""
    ramp = torch.arange(0, 240, 4, dtype=torch.uint8).repeat(60, 1)[None, None].repeat(400, 1, 1, 1)
    both = torch.cat([ramp, ramp.transpose(2, 3)], dim=1)
    out = augmented(both, Augment(least_area=0.2), [torch.Generator().manual_seed(1)])
    assert (out.shape, out.dtype) == (both.shape, torch.uint8)
    out = out.float()
    across = (out[:, 0, 0, -1] - out[:, 0, 0, 0]) / (59 * 4)
    down = (out[:, 1, -1, 0] - out[:, 1, 0, 0]) / (59 * 4)
    area = across * down
    assert 0.15 < float(area.min()) < 0.25
    assert float(area.max()) > 0.9
    ratio = across / down
    assert 0.7 < float(ratio.min()) < 0.8
    assert 1.25 < float(ratio.max()) < 1.4
    assert float(out[:, 0].std(dim=1).max()) <= 1.0  # columns stay columns
    assert bool((out[:, 0].diff(dim=2) >= 0).all())
    begins = out[:, 0, 0, 0]
    assert float(begins.min()) == 0
    assert float(begins.max()) > 80


def test_a_window_reaches_every_border():
    image = torch.arange(64, dtype=torch.uint8).view(1, 1, 8, 8).repeat(3000, 1, 1, 1)
    out = augmented(image, Augment(least_area=0.3), [torch.Generator().manual_seed(2)])
    assert int(out.min()) == 0
    assert int(out.max()) == 63
    corners = {int(v) for v in out[:, 0, 0, 0]}
    assert len(corners) > 8


def test_two_ways_to_crop_at_once_are_refused():
    with pytest.raises(ValueError, match="choose one"):
        Augment(pad=2, least_area=0.5)


CONTENT = bytes(range(256)) * 400


class Server(http.server.BaseHTTPRequestHandler):
    """Answers as the test wants: how many of the requested bytes, and how many seconds a block takes."""

    sends: list[int | None] = []  # noqa: RUF012
    resets = False  # whether a connection that breaks is reset
    knows_ranges = True
    pause = 0.0
    speaks: threading.Event | None = None  # it falls silent after the head of its answer, until this is set
    ranges: list[str | None] = []  # noqa: RUF012

    def do_GET(self):
        wanted = self.headers.get("Range") if self.knows_ranges else None
        Server.ranges.append(self.headers.get("Range"))
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
        if start >= len(CONTENT):
            self.send_error(416)
            return
        self.send_response(206 if wanted else 200)
        self.send_header("Content-Length", str(len(CONTENT) - start))
        self.end_headers()
        count = Server.sends.pop(0) if Server.sends else None
        answer = CONTENT[start:][:count]
        if self.speaks is not None:
            self.speaks.wait()
        for i in range(0, len(answer), 20_000):
            time.sleep(self.pause)
            with suppress(ConnectionError):  # nobody listens any more
                self.wfile.write(answer[i : i + 20_000])
        if count is not None and self.resets:
            self.wfile.flush()
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.connection.close()

    def log_message(self, *arguments):
        pass


@pytest.fixture
def served(monkeypatch):
    """A server. Yields a function that sets how it answers, and its address."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()

    def answers(*sends, **how):
        monkeypatch.setattr(Server, "sends", list(sends))
        monkeypatch.setattr(Server, "ranges", [])
        for name, value in how.items():
            monkeypatch.setattr(Server, name, value)
        return f"http://127.0.0.1:{server.server_port}/file"

    yield answers
    server.shutdown()
    server.server_close()


def test_a_download_resumes_where_the_connection_broke(served, tmp_path):
    target = tmp_path / "folder" / "file"
    download(served(5000), target, otherwise="")
    assert target.read_bytes() == CONTENT
    assert Server.ranges == [None, "bytes=5000-"]
    download("http://127.0.0.1:1/file", target, otherwise="")  # it is there: nobody is asked


def test_a_download_finishes_over_a_connection_that_keeps_breaking(served, tmp_path):
    download(served(*[9000] * 8), tmp_path / "file", otherwise="")
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert len(Server.ranges) == 9


def test_a_server_that_sends_nothing_is_abandoned(served, tmp_path):
    with pytest.raises(UserError, match=r"cannot be fetched \(.*\): put it there"):
        download(served(*[0] * 9), tmp_path / "file", otherwise="put it there")
    assert len(Server.ranges) == 3
    assert not (tmp_path / "file").exists()


def test_a_server_without_ranges_sends_all_of_it_again(served, tmp_path):
    download(served(5000, knows_ranges=False), tmp_path / "file", otherwise="")
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_partial_file_that_is_too_long_is_begun_again(served, tmp_path):
    (tmp_path / "file.partial").write_bytes(CONTENT + b"more")
    download(served(), tmp_path / "file", otherwise="")
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_slow_server_is_waited_for(served, tmp_path, monkeypatch):
    monkeypatch.setattr(fetching, "TIMEOUT_SECONDS", 2)
    download(served(pause=0.1), tmp_path / "file", otherwise="")
    assert (tmp_path / "file").read_bytes() == CONTENT


def test_a_server_that_stops_sending_is_abandoned(served, tmp_path, monkeypatch):
    monkeypatch.setattr(fetching, "TIMEOUT_SECONDS", 0.2)
    speaks = threading.Event()
    try:
        with pytest.raises(UserError, match=r"cannot be fetched \(timed out\): put it there"):
            download(served(speaks=speaks), tmp_path / "file", otherwise="put it there")
        until("the server has noticed all three requests", lambda: len(Server.ranges) == 3)
    finally:
        speaks.set()


def test_a_connection_that_is_reset_is_tried_again(served, tmp_path):
    download(served(60_000, resets=True), tmp_path / "file", otherwise="")
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert len(Server.ranges) >= 2


def mixed(alpha, seed=1, images=None):
    images = torch.eye(6, dtype=torch.float64).view(6, 1, 2, 3) if images is None else images
    return mixup(images, torch.arange(6), 6, alpha, torch.Generator().manual_seed(seed))


def test_mixup_mixes_an_image_and_its_label_alike_in_one_share_for_the_batch():
    """Image i is the i-th unit vector and has label i, so mixed images and mixed labels must agree."""
    for seed in range(20):
        images, labels = mixed(1.0, seed)
        assert torch.equal(images.flatten(1), labels)
        torch.testing.assert_close(labels.sum(1), torch.ones(6, dtype=torch.float64))
        own = labels.diagonal()
        alone = own == 1  # images that were their own partners
        assert len(own[~alone].unique()) <= 1
        assert bool(((labels > 0).sum(1) <= 2).all())


@pytest.mark.parametrize("alpha", [0.2, 1.0, 4.0])
def test_the_share_is_drawn_from_beta(alpha):
    shares = torch.tensor([_beta(alpha, torch.Generator().manual_seed(seed)) for seed in range(4000)])
    assert float(shares.mean()) == pytest.approx(0.5, abs=0.03)
    assert float(shares.var()) == pytest.approx(1 / (4 * (2 * alpha + 1)), rel=0.08)


def test_the_loss_of_mixed_labels_is_the_mixture_of_the_losses():
    images, labels = torch.randn(6, 1, 2, 3), torch.tensor([0, 1, 2, 0, 1, 2])
    logits = torch.randn(6, 3)
    _, shares = mixup(images, labels, 3, 1.0, torch.Generator().manual_seed(3))
    losses = -torch.log_softmax(logits, 1)
    expected = (shares * losses).sum(1).mean()
    torch.testing.assert_close(torch.nn.functional.cross_entropy(logits, shares), expected)


def test_mixup_is_drawn_anew_every_step_and_for_every_worker():
    def batch(step, workers=4):
        return Batches(small.digits(), workers, 6, 3, CPU, torch.float64, 1.0).at(step)

    for (images, labels), (again, same) in zip(batch(7), batch(7)):
        assert torch.equal(images, again)
        assert torch.equal(labels, same)
        assert labels.shape == (6, 10)
    shares = {round(float(labels.max(1).values.min()), 9) for step in range(4) for _, labels in batch(step)}
    assert len(shares) > 12


def test_a_recipe_can_leave_the_augmentation_out(tmp_path, monkeypatch):
    """Crops and flips belong to the data set; the recipe says whether they are used."""
    cell = expand_suite.cells("demo")[0]
    dataset = plugins.get("dataset", "digits").load()
    monkeypatch.setattr(dataset, "augment", Augment(pad=1, flip=True))
    lay_out.lay_out("digits", dataset(), data_folder(tmp_path, "digits"), None, tmp_path)
    assert task_of(cell, tmp_path, CPU).data.augment == Augment(pad=1, flip=True)
    without = replace(cell, recipe=cell.recipe.model_copy(update={"augment": False}))
    assert task_of(without, tmp_path, CPU).data.augment == Augment()
