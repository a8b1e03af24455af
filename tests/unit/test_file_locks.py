"""Locks on files, also on file systems that have none."""

import errno
import fcntl
import os

import pytest

from thinwire.errors import ResourceError, UserError
from thinwire.files import locked
from thinwire.launch.gpu_claims import claim


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
