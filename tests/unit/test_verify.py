"""`thinwire verify` finds what was changed beside the records, and says how many records are sound."""

import shutil
from types import SimpleNamespace

import pandas as pd
import pytest

from tests import sound
from thinwire.audit import archive
from thinwire.audit import verify as verification
from thinwire.audit.verify import verify
from thinwire.base import digests
from thinwire.base.errors import UserError
from thinwire.cli import results as command
from thinwire.config.cell import sources
from thinwire.data.dataset import MANIFEST
from thinwire.publish.page import page
from thinwire.records import record
from thinwire.report import claims_table as claims
from thinwire.report import report_files
from thinwire.report.report_files import (
    CLAIMS,
    CLAIMS_TEXT,
    COLLECTED,
    CURVES,
    DIGESTS,
    PAGE,
    SUMMARY,
    TRAFFIC,
)
from thinwire.report.rows import collect
from thinwire.train import record_check
from thinwire.train.result_files import data_folder, record_folder, runs_folder

GRID = sound.cells("demo")[:3]


def only_these_cells(monkeypatch):
    for module in (archive, collect, record_check):
        monkeypatch.setattr(module, "cells", lambda suite: GRID)


@pytest.fixture
def results(made, tmp_path, monkeypatch):
    """A copy of the records of three runs, their data, and what was made of them."""
    only_these_cells(monkeypatch)
    return shutil.copytree(made, tmp_path / "results")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made") / "results"
    data = data_folder(folder, "digits")
    data.mkdir(parents=True)
    (data / "images.npy").write_bytes(b"images")
    files = {"images.npy": {"sha256": digests.of_file(data / "images.npy")}}
    digests.write_json(data / MANIFEST, {"files": files})
    read = digests.of_files(data, (MANIFEST, "images.npy"))
    for cell in GRID:
        sound.publish(folder, cell, provenance={"sources_sha256": sources(cell), "data_sha256": read})
    with pytest.MonkeyPatch.context() as monkeypatch:
        only_these_cells(monkeypatch)
        collect.collect(["demo"], folder)
    for kind in ("tables", "figures"):
        (folder / kind / "demo").mkdir(parents=True)
        (folder / kind / "demo/made.txt").write_text(kind)
    report_files.write_digests(folder, "demo")
    return folder


def collected(change):
    """Change collected files, and make their digests anew, as somebody would who has changed them."""

    def changed(results):
        change(results)
        content = digests.read_json(results / COLLECTED)
        content["files"] = digests.of_files(results, content["files"])
        digests.write_json(results / COLLECTED, content)

    return changed


def edited(change):
    """Change the text of the summary."""
    return lambda r: (r / SUMMARY).write_text(change((r / SUMMARY).read_text()))


edit_summary = edited(lambda text: text.replace(",done,", ",failed,", 1))
add_a_row = edited(lambda text: text + text.splitlines()[-1] + "\n")


def more_by_one(name, column):
    def change(results):
        table = pd.read_parquet(results / name)
        table.loc[0, column] += 1
        table.to_parquet(results / name)

    return change


def cut(results):
    (results / CURVES).write_bytes((results / CURVES).read_bytes()[:-8])


def publish_again(results):
    """Another sound record of a cell whose row is collected."""
    folder = record_folder(results, GRID[0])
    run = record.read(folder / record.RUN)
    shutil.rmtree(folder)
    sound.publish(results, GRID[0], provenance=run.provenance, interruptions=1)


def forget_a_record(results):
    content = digests.read_json(results / COLLECTED)
    content["records"].popitem()
    digests.write_json(results / COLLECTED, content)


def json_of(name, content):
    return lambda results: digests.write_json(results / name, content)


MANIFEST_OF_DIGITS, DIGESTS_OF_DEMO = f"data/digits/{MANIFEST}", f"tables/demo/{DIGESTS}"
OTHER, NOT_COLLECTED = {"records": {}, "made_from": 7}, "holds what `thinwire collect` does not write"
CHANGES = [
    (collected(cut), COLLECTED, NOT_COLLECTED),
    (json_of(COLLECTED, OTHER), COLLECTED, NOT_COLLECTED),
    (json_of(DIGESTS_OF_DEMO, OTHER), DIGESTS, "holds what `thinwire report` does not write"),
    (json_of(MANIFEST_OF_DIGITS, OTHER), MANIFEST, "is not the manifest of a data set"),
    (json_of(MANIFEST_OF_DIGITS, {"files": {}}), record.RUN, "other data than there are now"),
    (edit_summary, SUMMARY, "is not the file that was written"),
    (collected(edit_summary), SUMMARY, f"another row than follows from runs/demo/{GRID[0].path}"),
    (collected(add_a_row), SUMMARY, "has 4 rows of 3 records"),
    (collected(more_by_one(CURVES, "test_accuracy_percent")), CURVES, "other rows than follow from"),
    (collected(more_by_one(TRAFFIC, "messages")), TRAFFIC, "other rows than follow from the records"),
    (publish_again, SUMMARY, "has a row of another record"),
    (lambda r: shutil.rmtree(record_folder(r, GRID[1])), SUMMARY, "which is no sound record"),
    (forget_a_record, SUMMARY, "has 3 rows of 2 records"),
    (lambda r: (r / COLLECTED).unlink(), SUMMARY, f"has no {COLLECTED} beside it"),
    (lambda r: (r / "tables/demo/made.txt").write_text("x"), "demo/made.txt", "changed after it was made"),
    (lambda r: (r / DIGESTS_OF_DEMO).unlink(), DIGESTS, "is missing: make them again with"),
    (lambda r: shutil.rmtree(r / "tables/demo"), DIGESTS, "is missing: make them again with"),
    (lambda r: (r / "figures/demo/made.txt").unlink(), "figures/demo/made.txt", "is missing"),
    (lambda r: (data_folder(r, "digits") / "images.npy").write_bytes(b""), "images.npy", "is not the file"),
]


@pytest.mark.parametrize(("change", "file", "words"), CHANGES)
def test_a_change_beside_the_records_is_found(results, change, file, words):
    change(results)
    problems = verify(results).problems
    assert any(file in sentence and words in sentence for sentence in problems), problems
    assert all("again" in sentence and "\n" not in sentence for sentence in problems)


def test_a_table_of_other_records_is_found(results):
    publish_again(results)
    collect.collect(["demo"], results)
    (sentence,) = verify(results).problems
    assert sentence.startswith("the tables and figures of demo were made from other records")


def no_suite(name):
    raise UserError(f"there is no suite {name}")


def test_what_is_left_of_a_suite_that_was_removed_is_to_be_deleted(results, monkeypatch):
    for module in (record_check, verification):
        monkeypatch.setattr(module, "suite_names", list)
    monkeypatch.setattr(record_check, "cells", no_suite)
    problems = verify(results).problems
    for cell in GRID:
        words = "is of a cell that no suite in config/ has now: delete it, or restore its suite"
        assert f"{record_folder(results, cell)} {words}" in problems
    words = "has tables or figures of demo, which is no suite: delete them, or restore it"
    assert problems[len(GRID) :] == [f"{results} {words}"]


def test_a_claim_or_page_that_does_not_follow_is_found(results, monkeypatch):
    monkeypatch.setattr(claims.suites, "suite_names", lambda: ["demo", "claims/mp2_digits"])
    claims.write(claims.table(results)[0], results)
    page.write(results)
    assert verify(results).problems == []
    for names in ((CLAIMS_TEXT, PAGE), (CLAIMS,)):  # the page cannot be checked without the claims
        for name in names:
            text = (results / name).read_text()
            (results / name).write_text(text.replace("e", "a", 1))
        problems = verify(results).problems
        assert all(sentence.count("again") == 1 for sentence in problems)
        for name in names:
            words = f"{results / name} is not what follows from the collected files: make it"
            assert any(sentence.startswith(words) for sentence in problems)


def test_another_plug_in_than_now_is_found_but_for_archived_records(results, monkeypatch):
    edited = lambda cell: dict.fromkeys(sources(cell), "0")  # noqa: E731
    monkeypatch.setattr(record_check, "sources_of_many", lambda: edited)
    found = verify(results)
    assert found.sound == 0
    assert (
        "another file of the method and of the model and of the dataset and of the engine than there is now"
        in found.problems[0]
    )
    kept = verify(results, archived=True)
    assert (kept.sound, kept.problems) == (3, [])
    assert kept.edited["model cnn"] == 3


@pytest.mark.parametrize("changed", [False, True])
def test_the_command_says_how_many_are_sound_and_exits_with_0_only_if_all_is_well(results, capsys, changed):
    if changed:
        (record_folder(results, GRID[2]) / record.LOG).write_text("another log")
    assert command.verify_main(SimpleNamespace(folder=results)) == int(changed)
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert lines == (["3 records, 2 sound; 2 problems in all"] if changed else ["3 records, 3 sound"])
    assert len(printed.err.splitlines()) == (2 if changed else 0)


def test_archived_records_are_checked_and_messages_name_the_folder(results, capsys):
    archive.pack(results, "demo", results)
    shutil.rmtree(runs_folder(results))
    edit_summary(results)
    (results / DIGESTS_OF_DEMO).unlink()
    before = sorted(results.rglob("*"))
    assert command.verify_main(SimpleNamespace(folder=results)) == 1
    assert sorted(results.rglob("*")) == before
    printed = capsys.readouterr()
    assert printed.out == "3 records, 3 sound; 2 problems in all\n"
    assert printed.err.startswith(f"{results / SUMMARY} is not the file that was written")
    for sentence in printed.err.splitlines():
        assert sentence.endswith(f" again with `thinwire rebuild {results}`")
