"""Archives of records: equal records give equal bytes, and what is unpacked is what was packed."""

import io
import os
import tarfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from tests import project, sound
from thinwire.audit import archive
from thinwire.base.errors import UserError
from thinwire.base.files import write_text
from thinwire.config import expand
from thinwire.config.yaml_file import Module
from thinwire.report.rows import collect
from thinwire.simulation.simulated_file import path_of_times, paths_of_times
from thinwire.train.result_files import record_folder, runs_folder

GRID = sound.cells("demo")[:2]


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "cells", lambda suite: GRID)
    for cell in GRID:
        sound.publish(tmp_path / "results", cell)
    return tmp_path / "results"


def everything(folder):
    """The bytes of all files under a folder, by their paths."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_what_is_unpacked_is_what_was_packed(results, tmp_path):
    reference = tmp_path / "reference"
    left = next(runs_folder(results).rglob("run.json")).with_name(".run.json.4711")
    left.write_text("by a process that was killed")
    archive.pack(results, "demo", reference)
    left.unlink()
    other = runs_folder(reference) / "demo/other/run.json"
    other.parent.mkdir(parents=True)
    other.write_text("{}")
    (reference / "summary.csv").write_text("collected")
    assert archive.archived(reference) == ["demo"]
    before = everything(reference)
    with archive.unpacked(reference) as view:
        assert len(everything(runs_folder(view))) == 8
        assert everything(runs_folder(view)) == everything(runs_folder(results))
        assert (view / "summary.csv").read_text() == "collected"
    assert everything(reference) == before
    assert not view.exists()


def test_what_was_made_in_a_view_replaces_what_was_there_and_records_stay_apart(results, tmp_path):
    reference = tmp_path / "reference"
    archive.pack(results, "demo", reference)
    for name in ("summary.csv", "paper/old.typ", "tables/old.csv"):
        write_text(reference / name, "old")
    with archive.unpacked(reference) as view:
        for name in ("summary.csv", "paper/new.typ", "tables/new.csv"):
            write_text(view / name, "new")
        archive.hand_over(view, reference)
    made = {"paper/new.typ", "records/demo.tar.xz", "summary.csv", "tables/new.csv", "tables/old.csv"}
    assert set(everything(reference)) == made
    assert (reference / "summary.csv").read_text() == "new"


def test_messages_name_the_folder_that_was_given(results, tmp_path):
    archive.pack(results, "demo", tmp_path)
    with (
        pytest.raises(UserError, match=rf"^{tmp_path}/summary\.csv is damaged$"),
        archive.unpacked(tmp_path) as view,
    ):
        raise UserError(f"{view / 'summary.csv'} is damaged")


def packed(path, name, size=0, kind=tarfile.REGTYPE):
    """An archive of records that somebody else has made."""
    path.parent.mkdir(parents=True)
    with tarfile.open(path, "w:xz") as tar:
        member = tarfile.TarInfo(name)
        member.type, member.size, member.linkname = kind, size, "/etc/passwd"
        tar.addfile(member, io.BytesIO(bytes(size)))


def refuses_to_unpack(folder, words):
    with pytest.raises(UserError, match=words), archive.unpacked(folder):
        raise AssertionError("it was unpacked")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("index.html", tarfile.REGTYPE),
        ("runs/other/digits/run.json", tarfile.REGTYPE),
        ("runs/demo/../../run.json", tarfile.REGTYPE),
        ("runs/demo/digits/other.txt", tarfile.REGTYPE),
        ("/runs/demo/digits/run.json", tarfile.REGTYPE),
        ("runs/demo/digits/run.json", tarfile.SYMTYPE),
        ("runs/demo/digits/run.json", tarfile.FIFOTYPE),
    ],
)
def test_what_is_no_file_of_a_record_is_not_unpacked(tmp_path, name, kind):
    packed(tmp_path / "records/demo.tar.xz", name, kind=kind)
    refuses_to_unpack(tmp_path, "is no file of a record of demo: restore it")


def test_archives_that_unpack_to_too_much_are_refused_before_they_are_written(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MOST_BYTES", 2**30)
    packed(tmp_path / "records/demo.tar.xz", "runs/demo/digits/log.txt", size=2**20)
    with archive.unpacked(tmp_path) as view:
        assert (view / "runs/demo/digits/log.txt").stat().st_size == 2**20
    monkeypatch.setattr(archive, "MOST_BYTES", 2**20 - 1)
    refuses_to_unpack(tmp_path, r"unpack to more than .* the last one read is .*demo\.tar\.xz")


def test_equal_records_give_equal_bytes(results, tmp_path):
    first = archive.pack(results, "demo", tmp_path / "one").read_bytes()
    for path in runs_folder(results).rglob("*"):
        os.utime(path, (0, 0))
        path.chmod(0o700)
    assert archive.pack(results, "demo", tmp_path / "other").read_bytes() == first


def test_a_method_that_was_added_later_is_missing_in_no_archive(results, tmp_path, monkeypatch):
    archive.pack(results, "demo", tmp_path / "reference")
    added = project.add_method(tmp_path, monkeypatch)
    later = replace(GRID[0], method=Module(added, added, {}))
    for module in (archive, expand, collect):
        monkeypatch.setattr(module, "cells", lambda suite: [*GRID, later])
    archive.archive([], results, tmp_path / "reference")
    assert list(collect.read_summary(tmp_path / "reference", "demo").method) == ["ssgd", "ssgd_bf16"]


def test_without_the_suite_that_the_paper_is_about_all_else_is_rebuilt(tmp_path, monkeypatch):
    grid = sound.cells("rivals")[:2]
    for module in (archive, expand, collect):
        monkeypatch.setattr(module, "cells", lambda suite: grid)
    monkeypatch.setattr(archive, "ProcessPoolExecutor", ThreadPoolExecutor)  # has these cells, too
    for cell in grid:
        sound.publish(tmp_path / "results", cell)
    archive.archive(["rivals"], tmp_path / "results", tmp_path / "reference")
    said = archive.rebuild(tmp_path / "reference", 1)[-1]
    records = tmp_path / "reference/records"
    assert said == f"paper.pdf is left out, because {records} has no archive of demo, which it needs"
    for name in ("tables/rivals/summary.csv", "figures/rivals/traffic.pdf", "claims.md", "index.html"):
        assert (tmp_path / "reference" / name).exists()


def test_times_of_the_named_suites_only_are_archived(results, tmp_path, monkeypatch):
    for module in (expand, collect):
        monkeypatch.setattr(module, "cells", lambda suite: GRID)
    for suite in ("times/mp2", "deleted"):
        write_text(path_of_times(results, suite), suite)
    archive.archive(["demo", "times/mp2"], results, tmp_path / "reference")
    assert paths_of_times(tmp_path / "reference") == [path_of_times(tmp_path / "reference", "times/mp2")]
    assert archive.archived(tmp_path / "reference") == ["demo"]


def test_a_suite_without_all_of_its_records_and_a_folder_without_archives_are_refused(results, tmp_path):
    (record_folder(results, GRID[1]) / "run.json").unlink()
    with pytest.raises(UserError, match=r"1 of 2 cells of demo have no record, .* suites=demo first"):
        archive.pack(results, "demo", tmp_path / "reference")
    assert archive.archived(tmp_path / "reference") == []
    refuses_to_unpack(tmp_path, "has no archives of records: `thinwire archive SUITE")


@pytest.mark.parametrize("damage", [lambda data: data[: len(data) // 2], lambda data: b"no archive" + data])
def test_a_damaged_archive_is_named(results, tmp_path, damage):
    path = archive.pack(results, "demo", tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    refuses_to_unpack(tmp_path, r"records/demo\.tar\.xz is damaged .*: restore it")
