"""Files and folders are complete or do not exist."""

import errno
import os
from pathlib import Path

import pytest

from thinwire.errors import CannotWrite, UserError
from thinwire.files import aside, publish, write_text


@pytest.fixture
def folder(tmp_path):
    """A finished folder."""
    made = tmp_path / "made"
    made.mkdir()
    write_text(made / "run.json", "new")
    return made


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_published_folder_replaces_what_is_there(folder, tmp_path):
    target = tmp_path / "runs/seed0"
    write_text(target / "old.json", "old")
    publish(folder, target)
    assert names(target) == ["run.json"]
    assert names(tmp_path / "runs") == ["seed0"]
    assert not folder.exists()


@pytest.mark.parametrize("there", [True, False])
def test_a_folder_is_published_on_another_file_system(folder, tmp_path, monkeypatch, there):
    def rename(path, target):
        if path.parent != target.parent:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        os.rename(path, target)

    target = tmp_path / "runs/seed0"
    if there:
        write_text(target / "old.json", "old")
    monkeypatch.setattr(Path, "rename", rename)
    publish(folder, target)
    assert names(target) == ["run.json"]
    assert names(tmp_path / "runs") == ["seed0"]
    assert not folder.exists()


def test_nothing_is_left_of_a_file_that_was_not_finished(tmp_path, monkeypatch):
    with pytest.raises(UnicodeEncodeError):
        write_text(tmp_path / "table", "\ud800")
    assert names(tmp_path) == []

    def fsync(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(CannotWrite, match=r"table cannot be written \(No space left on device\)"):
        write_text(tmp_path / "table", "all")
    assert names(tmp_path) == []


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    missing = tmp_path / "log.txt"
    with pytest.raises(UserError, match=f"{missing} cannot be read "), aside(tmp_path / "table"):
        missing.read_text()
