"""CIFAR's archives: both formats, every kind of damage, and pickles that try to execute code."""

import pickle
import tarfile
import tracemalloc

import numpy as np
import pytest

from tests import archives
from thinwire import plugins
from thinwire.data import arrays, cifar_archive, lay_out
from thinwire.errors import UserError

RNG = np.random.default_rng(0)


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
    folder = {"cifar10": "cifar-10-batches-", "cifar100": "cifar-100-"}[name]
    content = {}
    for member, (images, labels) in batches.items():
        coarse = [label // 5 for label in labels]
        if form == "binary":
            own = [labels] if name == "cifar10" else [coarse, labels]
            content[f"{folder}bin/{member}.bin"] = archives.binary(images, *own)
        else:
            own = (
                {"labels": labels} if name == "cifar10" else {"fine_labels": labels, "coarse_labels": coarse}
            )
            content[f"{folder}py/{member}"] = archives.python_2_pickle(images, own)
    content[f"{folder}x/readme.html"] = b"<html>"
    expected = [
        (
            np.concatenate([batches[m][0] for m in part]),
            np.concatenate([batches[m][1] for m in part]).tolist(),
        )
        for part in parts
    ]
    return content, expected


@pytest.fixture
def archive(tmp_path, monkeypatch):
    """Put an archive into a folder, and let the data set expect its checksums."""

    def put(name, form, content):
        dataset = plugins.get("dataset", name).load()
        number = {"binary": 0, "python": 1}[form]
        path = tmp_path / dataset.archives[number].name
        archives.tar_gz(path, content)
        known = list(dataset.archives)
        known[number] = archives.with_checksums(known[number], path)
        monkeypatch.setattr(dataset, "archives", known)
        return dataset(), path

    return put


def refusal(dataset, place, tmp_path):
    with pytest.raises(UserError) as caught:
        lay_out.lay_out("cifar", dataset, tmp_path / "laid", place, tmp_path / "download")
    assert not (tmp_path / "laid").exists()
    return str(caught.value)


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
@pytest.mark.parametrize("form", ["binary", "python"])
def test_an_archive_in_the_official_format_is_laid_out(name, form, archive, tmp_path):
    content, (train, test) = members(name, form)
    dataset, path = archive(name, form, content)
    lay_out.lay_out(name, dataset, tmp_path / "laid", path.parent, tmp_path / "download")
    data = arrays.load(tmp_path / "laid", dataset)
    for images, labels, (expected_images, expected_labels) in (
        (data.train_images, data.train_labels, train),
        (data.test_images, data.test_labels, test),
    ):
        assert np.array_equal(images.numpy(), expected_images)
        assert labels.tolist() == expected_labels


def test_the_binary_archive_is_preferred(archive, tmp_path):
    binary, (train, _) = members("cifar10", "binary")
    archive("cifar10", "binary", binary)
    dataset, path = archive("cifar10", "python", members("cifar10", "python")[0])
    assert np.array_equal(dataset.fetch(path.parent, tmp_path).train_images, train[0])


def test_the_pickles_of_the_tests_are_those_of_python_2():
    """The standard reader returns what was pickled."""
    images, labels = made(5, 10)
    content = archives.python_2_pickle(images, {"labels": labels})
    batch = pickle.loads(content, encoding="bytes")
    assert np.array_equal(batch[b"data"].reshape(5, 3, 32, 32), images)
    assert batch[b"labels"] == labels


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_one_flipped_bit_anywhere_is_found_before_anything_is_read(name, archive, tmp_path, monkeypatch):
    dataset, path = archive(name, "binary", members(name, "binary")[0])
    monkeypatch.setattr(cifar_archive.tarfile, "open", lambda *a, **k: pytest.fail("the archive was opened"))
    content = path.read_bytes()
    for place in (0, 9, len(content) // 2, len(content) - 1):
        changed = bytearray(content)
        changed[place] ^= 4
        path.write_bytes(changed)
        message = refusal(dataset, path.parent, tmp_path)
        assert "is not the official" in message
        assert "expected" in message
    path.write_bytes(content[:-100])
    assert "is not the official" in refusal(dataset, path.parent, tmp_path)


@pytest.mark.parametrize(
    "evil",
    [
        b"cos\nsystem\n(S'touch %s'\ntR.",
        b'c__builtin__\neval\n(S\'open("%s", "w")\'\ntR.',
        b"\x80\x02cnumpy\nload\n(U\x04%stR.",
    ],
)
def test_a_malicious_pickle_executes_nothing(evil, archive, tmp_path):
    """Even one with the right checksum."""
    target = tmp_path / "executed"
    content, _ = members("cifar10", "python")
    content["cifar-10-batches-py/data_batch_1"] = evil.replace(b"%s", str(target).encode())
    dataset, path = archive("cifar10", "python", content)
    assert "data_batch_1 is not in CIFAR's format" in refusal(dataset, path.parent, tmp_path)
    assert not target.exists()


@pytest.mark.parametrize(
    ("form", "change", "message"),
    [
        ("binary", lambda content: content[:-1], "not in CIFAR's format"),
        ("binary", lambda content: b"", "not in CIFAR's format"),
        ("python", lambda content: content[:500], "not in CIFAR's format"),
        ("python", lambda content: b"no pickle", "not in CIFAR's format"),
        ("python", lambda content: pickle.dumps({b"data": 3, b"labels": [1]}, 2), "not in CIFAR's format"),
        ("python", lambda content: content.replace(b"labels", b"lebals"), "not in CIFAR's format"),
        ("python", lambda content: None, "has no member test_batch"),
        ("binary", lambda content: None, "has no member test_batch.bin"),
    ],
)
def test_a_member_that_is_not_what_it_should_be_is_one_sentence(form, change, message, archive, tmp_path):
    content, _ = members("cifar10", form)
    (name,) = [name for name in content if "test_batch" in name]
    changed = change(content.pop(name))
    if changed is not None:
        content[name] = changed
    dataset, path = archive("cifar10", form, content)
    assert message in refusal(dataset, path.parent, tmp_path)


def test_labels_outside_the_classes_are_refused(archive, tmp_path):
    content, _ = members("cifar10", "binary")
    content["cifar-10-batches-bin/test_batch.bin"] = archives.binary(made(2, 10)[0], [3, 10])
    dataset, path = archive("cifar10", "binary", content)
    assert "test labels reach from 3 to 10" in refusal(dataset, path.parent, tmp_path)


def test_links_and_paths_in_an_archive_have_no_effect(archive, tmp_path):
    """Members are read, never unpacked: a link is no member, a path is only a name."""
    content, (train, _) = members("cifar10", "binary")
    dataset, path = archive("cifar10", "binary", {f"../../{name}": c for name, c in content.items()})
    assert np.array_equal(dataset.fetch(path.parent, tmp_path).train_images, train[0])
    before = sorted(tmp_path.parent.rglob("*"))
    with tarfile.open(path, "w:gz") as tar:
        for name in content:
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
            tar.addfile(link)
    known = [archives.with_checksums(dataset.archives[0], path)]
    type(dataset).archives = known
    assert "has no member data_batch_1.bin" in refusal(dataset, path.parent, tmp_path)
    assert sorted(tmp_path.parent.rglob("*")) == before


def test_missing_files_are_named_with_the_place_to_put_them(tmp_path):
    for name in ("cifar10", "cifar100"):
        dataset = plugins.get("dataset", name).load()()
        message = refusal(dataset, tmp_path, tmp_path)
        for archive in dataset.archives:
            assert archive.name in message
        assert "put one of these files there" in message


def test_what_was_downloaded_is_verified_before_it_is_read(archive, tmp_path, monkeypatch):
    dataset, path = archive("cifar10", "binary", members("cifar10", "binary")[0])
    asked = []

    def fetch(url, target, otherwise):
        asked.append(url)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.read_bytes() + (b"?" if len(asked) == 1 else b""))

    monkeypatch.setattr(cifar_archive, "fetch_file", fetch)
    assert "is not the official cifar-10-binary.tar.gz" in refusal(dataset, None, tmp_path)
    (tmp_path / "download" / path.name).unlink()
    lay_out.lay_out("cifar10", dataset, tmp_path / "laid", None, tmp_path / "download")
    assert asked == [f"{cifar_archive.ORIGIN}/cifar-10-binary.tar.gz"] * 2


def test_a_large_file_of_an_archives_name_is_not_read_into_memory(tmp_path):
    archive = plugins.get("dataset", "cifar10").load().archives[0]
    with (tmp_path / archive.name).open("wb") as file:
        file.truncate(100 * 2**20)
    tracemalloc.start()
    try:
        with pytest.raises(UserError, match="is not the official"):
            cifar_archive.find([archive], tmp_path, tmp_path)
        assert tracemalloc.get_traced_memory()[1] < 10 * 2**20
    finally:
        tracemalloc.stop()
