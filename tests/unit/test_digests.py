"""JSON with a digest of itself, and files with digests: what was changed is found, in one sentence."""

import json

import pytest

from thinwire.base import digests

TEXTS = {
    "empty": (b"", "it is not JSON"),
    "cut": (b'{"a": 1', "it is not JSON"),
    "not UTF-8": (b'{"a": "\xff\xfe"}', "it is not UTF-8"),
    "nested deeply": (b'{"a":' * 10_000 + b"1" + b"}" * 10_000, "it is nested too deeply"),
    "a long number": (b'{"a": ' + b"9" * 5000 + b"}", "it is not JSON"),
    "a list": (b"[1, 2]", "it holds no JSON object"),
    "without a digest": (b'{"a": 1}', "has no digest of itself"),
    "with another digest": (b'{"a": 1, "sha256": "0"}', "was changed after it was written"),
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


def test_a_file_that_is_there_and_cannot_be_read_is_not_called_damaged(path):
    """A link to itself: the system refuses to open it, whoever asks."""
    path.unlink()
    path.symlink_to(path)
    with pytest.raises(digests.UserError, match=r"cannot be read \(.*\): make it readable") as caught:
        digests.read_json(path)
    assert not isinstance(caught.value, digests.Damaged)


def test_files_must_be_those_that_were_written(tmp_path):
    (tmp_path / "a").write_bytes(b"a" * 100)
    known = digests.of_files(tmp_path, ["a"])
    digests.require_files(tmp_path, known)
    (tmp_path / "a").write_bytes(b"a" * 99 + b"b")
    with pytest.raises(digests.Damaged, match=r"a is not the file that was written \(its SHA-256 differs\)"):
        digests.require_files(tmp_path, known)
