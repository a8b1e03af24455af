"""Files and folders are complete or do not exist; locks, also on file systems that have none."""

import errno
import fcntl
import os
from pathlib import Path

import pytest

from thinwire.base.errors import CannotWrite, ResourceError, UserError
from thinwire.base.files import aside, locked, publish, write_text
from thinwire.launch.gpu_claims import claim


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


@pytest.fixture(params=["ENOSYS", "ENOTSUP", "EOPNOTSUPP", "ENOLCK"])
def _without_locks(request, monkeypatch):
    number = getattr(errno, request.param)

    def flock(file, operation):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", flock)


def test_only_one_process_has_the_lock(tmp_path):
    path = tmp_path / "a.lock"
    with (
        locked(path, "a"),
        pytest.raises(UserError, match="another process is at work on a"),
        locked(path, "a"),
    ):
        pass
    with locked(path, "a"):
        pass


@pytest.mark.usefixtures("_without_locks")
def test_a_file_system_without_locks_is_one_sentence(tmp_path, monkeypatch):
    path = tmp_path / "a.lock"
    words = rf"the file system of {path} has no locks \(.*\): put the project on another one, or .* -o flock"
    with pytest.raises(ResourceError, match=words), locked(path, "a"):
        pass
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(ResourceError, match=r"GPU-aa.lock has no locks .*: set TMPDIR"), claim(["GPU-aa"], 1):
        pass


def test_other_errors_of_locks_are_not_hidden(tmp_path, monkeypatch):
    def flock(file, operation):
        raise OSError(errno.EBADF, "broken")

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(OSError, match="broken"), locked(tmp_path / "a.lock", "a"):
        pass
