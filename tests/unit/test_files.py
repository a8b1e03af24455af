"""Files and folders are complete or do not exist; what was changed is found; locks."""

import errno
import fcntl
import json
import os
from pathlib import Path

import pytest

from thinwire.base import digests
from thinwire.base.errors import CannotWrite, ResourceError, UserError
from thinwire.base.files import aside, locked, publish, write_text
from thinwire.launch.placement import claim


@pytest.fixture
def folder(tmp_path):
    """A finished folder."""
    made = tmp_path / "made"
    made.mkdir()
    write_text(made / "run.json", "new")
    return made


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(("there", "elsewhere"), [(True, False), (True, True), (False, True)])
def test_a_published_folder_replaces_what_is_there(folder, tmp_path, monkeypatch, there, elsewhere):
    """Also on another file system."""

    def rename(path, target):
        if path.parent != target.parent:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        os.rename(path, target)

    target = tmp_path / "runs/seed0"
    if there:
        write_text(target / "old.json", "old")
    if elsewhere:
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


def refuse_locks(monkeypatch, number):
    def flock(file, operation):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", flock)


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOLCK])
def test_a_file_system_without_locks_is_one_sentence(tmp_path, monkeypatch, number):
    path = tmp_path / "a.lock"
    refuse_locks(monkeypatch, number)
    words = rf"the file system of {path} has no locks \(.*\): put the project on another one, or .* -o flock"
    with pytest.raises(ResourceError, match=words), locked(path, "a"):
        pass
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(ResourceError, match=r"GPU-aa.lock has no locks .*: set TMPDIR"), claim(["GPU-aa"], 1):
        pass
    refuse_locks(monkeypatch, errno.EBADF)
    with pytest.raises(OSError, match=r"^\[Errno 9\] Bad file descriptor$"), locked(path, "a"):
        pass


TEXTS = {
    "empty": (b"", "it is not JSON"),
    "cut": (b'{"a": 1', "it is not JSON"),
    "not UTF-8": (b'{"a": "\xff\xfe"}', "it is not UTF-8"),
    "nested deeply": (b'{"a":' * 10_000 + b"1" + b"}" * 10_000, "it is nested too deeply"),
    "a long number": (b'{"a": ' + b"9" * 5000 + b"}", "it is not JSON"),
    "a list": (b"[1, 2]", "it holds no JSON object"),
    "without a digest": (b'{"a": 1}', "has no digest of itself"),
}


@pytest.fixture
def path(tmp_path):
    digests.write_json(tmp_path / "made.json", {"b": [1.5, None], "a": "text"})
    return tmp_path / "made.json"


def refusal(path):
    with pytest.raises(digests.Damaged) as caught:
        digests.read_json(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_was_written_is_read_back_also_if_it_was_only_formatted_differently(path):
    assert digests.read_json(path) == {"b": [1.5, None], "a": "text"}
    path.write_text(json.dumps(json.loads(path.read_text()), sort_keys=True, indent=7))
    assert digests.read_json(path) == {"b": [1.5, None], "a": "text"}


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_that_was_not_written_so_is_refused(path, name):
    content, words = TEXTS[name]
    path.write_bytes(content)
    assert words in refusal(path)


@pytest.mark.parametrize(("old", "new"), [("1.5", "2.5"), ('"a"', '"c"'), ("null", "false")])
def test_every_change_of_the_content_is_found(path, old, new):
    path.write_text(path.read_text().replace(old, new))
    assert "was changed after it was written" in refusal(path)


def test_what_is_no_file_is_refused(path):
    path.unlink()
    assert "is missing" in refusal(path)
    path.mkdir()
    assert "is a folder instead of a file" in refusal(path)
    path.rmdir()
    path.symlink_to("/dev/zero")
    assert "is no regular file" in refusal(path)
    # A link to itself, which is there and cannot be read, is not called damaged.
    path.unlink()
    path.symlink_to(path)
    with pytest.raises(digests.UserError, match=r"cannot be read \(.*\): make it readable") as caught:
        digests.read_json(path)
    assert not isinstance(caught.value, digests.Damaged)
