"""The official files of data sets: downloaded, verified, and read in their formats."""

import gzip
import hashlib
import http.server
import io
import os
import pickle
import struct
import threading
from contextlib import suppress

import numpy as np
import pytest

from tests import archives
from tests.bad_input.suites import message
from thinwire import plugins
from thinwire.data import arrays, cifar
from thinwire.data.cifar import fetch_file, is_official
from thinwire.data.dataset import lay_out

RNG = np.random.default_rng(0)
CONTENT = bytes(range(256)) * 400
SHA256 = hashlib.sha256(CONTENT).hexdigest()


# ---- Downloads.


@pytest.fixture
def served():
    """A server. Yields its address, and a list with what it sends; None: it stays silent."""
    sends: list[bytes | None] = []
    speaks = threading.Event()

    class Server(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            if not sends:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(CONTENT)))
            self.end_headers()
            if sends[0] is None:
                speaks.wait()
            with suppress(ConnectionError):  # nobody listens any more
                self.wfile.write(sends[0] or b"")

        def log_message(self, *arguments):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/file", sends
    speaks.set()
    server.shutdown()
    server.server_close()


def test_a_file_is_downloaded_once_and_recognised_by_either_digest(served, tmp_path):
    url, sends = served
    sends.append(CONTENT)
    (tmp_path / "file.partial").write_bytes(CONTENT + b"of an interrupted download")
    fetch_file(url, tmp_path / "file", SHA256, "")
    assert (tmp_path / "file").read_bytes() == CONTENT
    assert os.listdir(tmp_path) == ["file"]
    fetch_file("http://127.0.0.1:1/file", tmp_path / "file", SHA256, "")  # it is there: nobody is asked
    md5 = hashlib.md5(CONTENT, usedforsecurity=False).hexdigest()
    assert is_official(io.BytesIO(CONTENT), md5)
    assert not is_official(io.BytesIO(CONTENT + b"?"), md5)


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        ([CONTENT[:5000]], "what arrived is damaged, cut short, or another file"),
        ([CONTENT[:-1] + b"?"], "what arrived is damaged, cut short, or another file"),
        ([None], "timed out"),
        ([], "HTTP Error 404: Not Found"),
    ],
    ids=["cut short", "changed", "silent", "missing"],
)
def test_a_failed_download_is_one_sentence_and_leaves_no_file(sent, reason, served, tmp_path, monkeypatch):
    monkeypatch.setattr(cifar, "TIMEOUT_SECONDS", 0.5)
    url, sends = served
    sends += sent
    assert message(fetch_file, url, tmp_path / "file", SHA256, "put it there") == (
        f"{url} cannot be fetched ({reason}): put it there"
    )
    assert not (tmp_path / "file").exists()
    monkeypatch.setattr(cifar, "TIMEOUT_SECONDS", 30)
    sends[:] = [CONTENT]
    fetch_file(url, tmp_path / "file", SHA256, "put it there")
    assert (tmp_path / "file").read_bytes() == CONTENT


# ---- CIFAR.


def made(count, classes):
    images = RNG.integers(0, 256, (count, 3, 32, 32), np.uint8)
    return images, RNG.integers(0, classes, count).tolist()


def members(name, form):
    """Members of an archive of one data set in one form, and the parts that they hold."""
    if name == "cifar10":
        batches = {f"data_batch_{i}": made(4, 10) for i in range(1, 6)} | {"test_batch": made(3, 10)}
        parts = [[*batches][:5], ["test_batch"]]
    else:
        batches = {"train": made(6, 100), "test": made(3, 100)}
        parts = [["train"], ["test"]]
    content = {"c/readme.html": b"<html>"}
    for member, (images, labels) in batches.items():
        coarse = [label // 5 for label in labels]
        own = {"labels": labels}
        if name == "cifar100":
            own = {"coarse_labels": coarse, "fine_labels": labels}
        if form == "binary":
            content[f"c/{member}.bin"] = archives.binary(images, *own.values())
        else:
            content[f"c/{member}"] = archives.python_2_pickle(images, own)
    expected = [
        (np.concatenate([batches[m][0] for m in part]), [label for m in part for label in batches[m][1]])
        for part in parts
    ]
    return content, expected


@pytest.fixture
def archive(tmp_path, monkeypatch):
    """Put an archive into a folder, and let the data set expect its checksum."""

    def put(name, form, content):
        dataset = plugins.get("dataset", name).load()
        number = {"binary": 0, "python": 1}[form]
        path = tmp_path / dataset.archives[number].name
        archives.tar(path, content)
        known = list(dataset.archives)
        known[number] = archives.with_checksum(known[number], path)
        monkeypatch.setattr(dataset, "archives", known)
        return dataset(), path

    return put


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
@pytest.mark.parametrize("form", ["binary", "python"])
def test_an_archive_in_the_official_format_is_laid_out(name, form, archive, tmp_path):
    content, (train, test) = members(name, form)
    dataset, path = archive(name, form, content)
    lay_out(name, dataset, tmp_path / "laid", path.parent, tmp_path / "download")
    data = arrays.load(tmp_path / "laid", dataset)
    made = (data.train_inputs, data.train_labels), (data.test_inputs, data.test_labels)
    for (images, labels), (expected_images, expected_labels) in zip(made, (train, test)):
        assert np.array_equal(images.numpy(), expected_images)
        assert labels.tolist() == expected_labels


def test_the_binary_archive_is_preferred(archive, tmp_path):
    binary, (train, _) = members("cifar10", "binary")
    archive("cifar10", "binary", binary)
    dataset, path = archive("cifar10", "python", members("cifar10", "python")[0])
    assert np.array_equal(dataset.fetch(path.parent, tmp_path).train_inputs, train[0])


def test_a_flipped_bit_is_found_before_anything_is_read(archive, tmp_path, monkeypatch):
    dataset, path = archive("cifar10", "binary", members("cifar10", "binary")[0])
    monkeypatch.setattr(cifar.tarfile, "open", lambda *a, **k: pytest.fail("the archive was opened"))
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)
    assert f"{path} is not the official {path.name} (its" in message(dataset.fetch, path.parent, tmp_path)


@pytest.mark.parametrize(
    ("form", "change", "words"),
    [
        ("binary", lambda content: content[:-1], "not in CIFAR's format"),
        ("binary", lambda content: None, "has no member test_batch.bin"),
        ("python", lambda content: None, "has no member test_batch"),
        ("python", lambda content: content[:500], "not in CIFAR's format"),
        ("python", lambda content: b"no pickle", "not in CIFAR's format"),
        ("python", lambda content: pickle.dumps({b"data": 3, b"labels": [1]}, 2), "not in CIFAR's format"),
        ("python", lambda content: content.replace(b"labels", b"lebals"), "not in CIFAR's format"),
        # Pickles that would execute something.
        ("python", lambda content: b"cos\nsystem\n(S'touch executed'\ntR.", "not in CIFAR's format"),
        ("python", lambda content: b'c__builtin__\neval\n(S\'open("executed", "w")\'\ntR.', "not in CIFAR's"),
        ("python", lambda content: b"\x80\x02cnumpy\nload\n(U\x08executedtR.", "not in CIFAR's format"),
    ],
)
def test_a_member_that_is_not_what_it_should_be_is_one_sentence(
    form, change, words, archive, tmp_path, monkeypatch
):
    """Even in an archive with the right checksum."""
    monkeypatch.chdir(tmp_path)
    content, _ = members("cifar10", form)
    (name,) = [name for name in content if "test_batch" in name]
    changed = change(content.pop(name))
    if changed is not None:
        content[name] = changed
    dataset, path = archive("cifar10", form, content)
    assert words in message(dataset.fetch, path.parent, tmp_path)
    assert not (tmp_path / "executed").exists()


def test_labels_outside_the_classes_are_refused(archive, tmp_path):
    content, _ = members("cifar10", "binary")
    content["c/test_batch.bin"] = archives.binary(made(2, 10)[0], [3, 10])
    dataset, path = archive("cifar10", "binary", content)
    where = (tmp_path / "laid", path.parent, tmp_path / "download")
    assert "test labels reach from 3 to 10" in message(lay_out, "cifar", dataset, *where)
    assert not (tmp_path / "laid").exists()


def test_missing_files_are_named_with_the_place_to_put_them(tmp_path):
    dataset = plugins.get("dataset", "cifar10").load()()
    names = " or ".join(archive.name for archive in dataset.archives)
    words = f"{tmp_path} has no {names}: put one of these files there"
    assert words in message(dataset.fetch, tmp_path, tmp_path)


def test_without_a_folder_the_binary_archive_is_downloaded(archive, tmp_path, monkeypatch):
    content, (train, _) = members("cifar10", "binary")
    dataset, path = archive("cifar10", "binary", content)
    asked = []

    def fetch_file(url, target, digest, otherwise):
        asked.append((url, digest))
        path.rename(target)

    monkeypatch.setattr(cifar, "fetch_file", fetch_file)
    (tmp_path / "download").mkdir()
    assert np.array_equal(dataset.fetch(None, tmp_path / "download").train_inputs, train[0])
    assert asked == [(f"{cifar.ORIGIN}/{path.name}", dataset.archives[0].sha256)]


# ---- Fashion-MNIST.

IMAGES = "train-images-idx3-ubyte"


@pytest.fixture
def fashion_mnist():
    return plugins.get("dataset", "fashion_mnist").load()


@pytest.mark.parametrize("compressed", [True, False])
def test_fashion_mnist_has_the_first_training_images_and_the_whole_test_set(
    compressed, fashion_mnist, tmp_path, monkeypatch
):
    files = {
        IMAGES: RNG.integers(0, 256, (130, 28, 28), np.uint8),
        "train-labels-idx1-ubyte": RNG.integers(0, 10, 130, np.uint8),
        "t10k-images-idx3-ubyte": RNG.integers(0, 256, (20, 28, 28), np.uint8),
        "t10k-labels-idx1-ubyte": RNG.integers(0, 10, 20, np.uint8),
    }
    digests = {}
    for name, array in files.items():
        content = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()
        digests[name] = hashlib.sha256(content).hexdigest()
        path = tmp_path / (f"{name}.gz" if compressed else name)
        path.write_bytes(gzip.compress(content) if compressed else content)
    monkeypatch.setattr(fashion_mnist, "files", digests)
    raw = fashion_mnist(fashion_mnist.Config(images=120)).fetch(tmp_path, tmp_path)
    train_inputs, train_labels, test_inputs, test_labels = files.values()
    expected = train_inputs[:120, None], train_labels[:120], test_inputs[:, None], test_labels
    assert all(map(np.array_equal, raw, expected))


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        (None, None, f"has neither {IMAGES}.gz nor {IMAGES}"),
        *(
            (f"{IMAGES}.gz", gzip.compress(CONTENT)[:kept], "is truncated or damaged")
            for kept in (1, 5, 30, -1)
        ),
        (f"{IMAGES}.gz", gzip.compress(b"else"), f"{IMAGES}.gz is not Fashion-MNIST's {IMAGES} (the SHA-256"),
        (IMAGES, b"else", f"{IMAGES} is not Fashion-MNIST's {IMAGES} (the SHA-256"),
    ],
    ids=["missing", "1 byte", "5 bytes", "30 bytes", "all but one", "another", "another, not compressed"],
)
def test_a_file_that_is_not_fashion_mnists_is_one_sentence(name, content, words, fashion_mnist, tmp_path):
    if name:
        (tmp_path / name).write_bytes(content)
    assert words in message(fashion_mnist().fetch, tmp_path, tmp_path / "download")
