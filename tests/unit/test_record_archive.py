"""Archives of records: equal records give equal bytes, and what is unpacked is what was packed."""

import os

import pytest

from tests import sound
from thinwire.errors import UserError
from thinwire.reference import record_archive
from thinwire.train.result_folders import record_folder, runs_folder

GRID = sound.cells("demo")[:2]


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setattr(record_archive, "cells", lambda suite: GRID)
    for cell in GRID:
        sound.publish(tmp_path / "results", cell)
    return tmp_path / "results"


def content(folder):
    """The bytes of all records under a folder of results, by their paths."""
    files = (path for path in runs_folder(folder).rglob("*") if path.is_file())
    return {path.relative_to(folder): path.read_bytes() for path in files}


def test_what_is_unpacked_is_what_was_packed(results, tmp_path):
    reference = tmp_path / "reference"
    record_archive.pack(results, "claims/demo", reference)
    stale = runs_folder(reference) / "demo/stale/run.json"
    stale.parent.mkdir(parents=True)
    stale.write_text("{}")
    record_archive.unpack(reference)
    assert record_archive.archived(reference) == ["claims/demo"]
    assert len(content(reference)) == 8
    assert content(reference) == content(results)


def test_equal_records_give_equal_bytes(results, tmp_path):
    first = record_archive.pack(results, "demo", tmp_path / "one").read_bytes()
    for path in runs_folder(results).rglob("*"):
        os.utime(path, (0, 0))
        path.chmod(0o700)
    assert record_archive.pack(results, "demo", tmp_path / "other").read_bytes() == first


def test_a_suite_without_all_of_its_records_is_refused(results, tmp_path):
    (record_folder(results, GRID[1]) / "run.json").unlink()
    with pytest.raises(UserError, match=r"1 of 2 cells of demo have no record, .* suites=demo first"):
        record_archive.pack(results, "demo", tmp_path / "reference")
    assert record_archive.archived(tmp_path / "reference") == []


@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], lambda data: b"no archive" + data])
def test_a_damaged_archive_is_named(results, tmp_path, damage):
    path = record_archive.pack(results, "demo", tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(UserError, match=r"records/demo\.tar\.xz is damaged .*: restore it"):
        record_archive.unpack(tmp_path)


def test_a_folder_without_archives_is_refused(tmp_path):
    with pytest.raises(UserError, match="has no archives of records: `thinwire archive SUITE"):
        record_archive.unpack(tmp_path)
