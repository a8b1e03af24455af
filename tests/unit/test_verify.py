"""`thinwire verify` finds what was changed beside the records, and says how many records are sound."""

import gc
import shutil
import time
from weakref import ref

import pandas as pd
import pytest

from tests import sound
from thinwire import digests, record
from thinwire.cli import verify as command
from thinwire.config.cell_sources import sources
from thinwire.data.dataset import MANIFEST
from thinwire.invariants import of_record
from thinwire.page import page
from thinwire.reference import record_archive
from thinwire.report import collect, other_records, report_digests
from thinwire.report.claims import table as claims
from thinwire.report.result_names import CLAIMS, CLAIMS_TEXT, COLLECTED, CURVES, DIGESTS, SUMMARY, TRAFFIC
from thinwire.train.result_folders import data_folder, record_folder, runs_folder
from thinwire.verify import collected_files, records, verify

GRID = sound.cells("demo")[:3]


@pytest.fixture
def results(tmp_path, monkeypatch):
    """The records of three runs, their data, and what was made of them."""
    for module in (collect, other_records, records):
        monkeypatch.setattr(module, "cells", lambda suite: GRID)
    monkeypatch.setattr(collected_files, "_AT_ONCE", 2)
    folder = tmp_path / "results"
    data = data_folder(folder, "digits")
    data.mkdir(parents=True)
    (data / "images.npy").write_bytes(b"images")
    files = {"images.npy": {"sha256": digests.of_file(data / "images.npy")}}
    digests.write_json(data / MANIFEST, {"files": files})
    read = digests.of_files(data, (MANIFEST, "images.npy"))
    for cell in GRID:
        sound.publish(folder, cell, provenance={"sources_sha256": sources(cell), "data_sha256": read})
    collect.collect(["demo"], folder)
    for kind in ("tables", "figures"):
        (folder / kind / "demo").mkdir(parents=True)
        (folder / kind / "demo/made.txt").write_text(kind)
    report_digests.write(folder, "demo")
    return folder


def collect_by_hand(results):
    """Make the digests of the collected files anew, as somebody would who has changed them."""
    content = digests.read_json(results / COLLECTED)
    content["files"] = digests.of_files(results, content["files"])
    digests.write_json(results / COLLECTED, content)


def edit_summary(results):
    path = results / SUMMARY
    path.write_text(path.read_text().replace(",done,", ",failed,", 1))


def edit_summary_and_digests(results):
    edit_summary(results)
    collect_by_hand(results)


def add_a_row(results):
    path = results / SUMMARY
    path.write_text(path.read_text() + path.read_text().splitlines()[-1] + "\n")
    collect_by_hand(results)


def edit_curves_and_digests(results):
    curves = pd.read_parquet(results / CURVES)
    curves.loc[0, "test_accuracy_percent"] += 1
    curves.to_parquet(results / CURVES)
    collect_by_hand(results)


def edit_traffic_and_digests(results):
    traffic = pd.read_parquet(results / TRAFFIC)
    traffic.loc[0, "messages"] += 1
    traffic.to_parquet(results / TRAFFIC)
    collect_by_hand(results)


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


def cut_curves(results):
    (results / CURVES).write_bytes((results / CURVES).read_bytes()[:-8])
    collect_by_hand(results)


def empty_digests(folder, name):
    digests.write_json(folder / name, {"records": {}, "made_from": 7})


CHANGES = {
    "curves that are no table": (cut_curves, COLLECTED, "holds what `thinwire collect` does not write"),
    "digests of other things": (
        lambda r: empty_digests(r, COLLECTED),
        COLLECTED,
        "holds what `thinwire collect` does not write",
    ),
    "digests of other tables": (
        lambda r: empty_digests(r / "tables/demo", DIGESTS),
        DIGESTS,
        "holds what `thinwire report` does not write",
    ),
    "no manifest": (
        lambda r: empty_digests(data_folder(r, "digits"), MANIFEST),
        MANIFEST,
        "is not the manifest of a data set",
    ),
    "summary": (edit_summary, SUMMARY, "is not the file that was written"),
    "summary and its digest": (
        edit_summary_and_digests,
        SUMMARY,
        f"another row than follows from runs/demo/{GRID[0].path}",
    ),
    "one row more": (add_a_row, SUMMARY, "has 4 rows of 3 records"),
    "curves and their digest": (edit_curves_and_digests, CURVES, "other rows than follow from the records"),
    "traffic and its digest": (edit_traffic_and_digests, TRAFFIC, "other rows than follow from the records"),
    "a record since": (publish_again, SUMMARY, "has a row of another record"),
    "a record that is gone": (
        lambda r: shutil.rmtree(record_folder(r, GRID[1])),
        SUMMARY,
        "which is no sound record",
    ),
    "a record that is not listed": (forget_a_record, SUMMARY, "has 3 rows of 2 records"),
    "no digests": (lambda r: (r / COLLECTED).unlink(), SUMMARY, f"has no {COLLECTED} beside it"),
    "table": (
        lambda r: (r / "tables/demo/made.txt").write_text("x"),
        "tables/demo/made.txt",
        "was changed after it was made",
    ),
    "figure": (lambda r: (r / "figures/demo/made.txt").unlink(), "figures/demo/made.txt", "is missing"),
    "data": (
        lambda r: (data_folder(r, "digits") / "images.npy").write_bytes(b"other"),
        "images.npy",
        "is not the file",
    ),
    "manifest": (
        lambda r: digests.write_json(data_folder(r, "digits") / MANIFEST, {"files": {}}),
        "run.json",
        "other data than there are now",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_beside_the_records_is_found(results, name):
    change, file, words = CHANGES[name]
    change(results)
    problems = verify.verify(results).problems
    assert any(file in sentence and words in sentence for sentence in problems), problems
    assert all("again" in sentence and "\n" not in sentence for sentence in problems)


def test_a_table_of_other_records_is_found(results):
    publish_again(results)
    collect.collect(["demo"], results)
    (sentence,) = verify.verify(results).problems
    assert sentence.startswith("the tables and figures of demo were made from other records")


@pytest.mark.parametrize("name", [CLAIMS, CLAIMS_TEXT, page.FILE])
def test_a_claim_or_page_that_does_not_follow_is_found(results, name):
    claims.write(claims.table(results)[0], results)
    page.write(results)
    assert verify.verify(results).problems == []
    (results / name).write_text((results / name).read_text().replace("e", "a", 1))
    sentences = verify.verify(results).problems
    assert any(
        sentence.startswith(f"{results / name} is not what follows from the collected files: make it")
        for sentence in sentences
    )


def test_another_plug_in_than_now_is_found(results, monkeypatch):
    monkeypatch.setattr(
        records, "sources_of_many", lambda: lambda cell: dict.fromkeys(sources(cell), "0" * 64)
    )
    found = verify.verify(results)
    assert found.sound == 0
    assert (
        "another file of the method and of the model and of the dataset and of the engine than there is now"
        in found.problems[0]
    )


@pytest.mark.parametrize("changed", [False, True])
def test_the_command_says_how_many_are_sound_and_exits_with_0_only_if_all_is_well(results, capsys, changed):
    if changed:
        (record_folder(results, GRID[2]) / record.LOG).write_text("another log")
    code = command.main(type("Arguments", (), {"folder": results}))
    printed = capsys.readouterr()
    assert code == int(changed)
    lines = printed.out.splitlines()
    assert lines == (["3 records, 2 sound; 2 problems in all"] if changed else ["3 records, 3 sound"])
    assert len(printed.err.splitlines()) == (2 if changed else 0)


def test_archived_records_are_checked_and_messages_name_the_folder(results, capsys, monkeypatch):
    monkeypatch.setattr(record_archive, "cells", lambda suite: GRID)
    record_archive.pack(results, "demo", results)
    shutil.rmtree(runs_folder(results))
    edit_summary(results)
    before = sorted(results.rglob("*"))
    assert command.main(type("Arguments", (), {"folder": results})) == 1
    assert sorted(results.rglob("*")) == before
    printed = capsys.readouterr()
    assert printed.out == "3 records, 3 sound; 1 problem in all\n"
    assert printed.err.startswith(f"{results / SUMMARY} is not the file that was written")


def test_the_tables_of_few_records_are_in_memory_at_once(results, monkeypatch):
    kept = []

    def read_tables(folder):
        gc.collect()
        assert sum(table() is not None for table in kept) <= 1, "that of the record before"
        curve, traffic = of_record.read_tables(folder)
        kept.append(ref(curve))
        return curve, traffic

    monkeypatch.setattr(records, "read_tables", read_tables)
    monkeypatch.setattr(collected_files, "_AT_ONCE", 1)
    assert verify.verify(results).sound == 3


def test_archived_records_may_be_older_than_their_plug_ins(results, monkeypatch):
    monkeypatch.setattr(
        records, "sources_of_many", lambda: lambda cell: sound.sources(cell) | {"method": "x"}
    )
    assert verify.verify(results).sound == 0
    archived = verify.verify(results, archived=True)
    assert (archived.sound, archived.problems) == (3, [])
    assert sum(archived.edited.values()) == 3
    assert all(name.startswith("method ") for name in archived.edited)


def test_a_thousand_records_take_seconds(results):
    """Measured on one record, many times: less than 10 ms each, with room for a slow machine."""
    folder = record_folder(results, GRID[0])
    check = records.RecordCheck(results, archived=False).check
    began = time.process_time()
    assert [problem for _ in range(50) for problem in check(folder).problems] == []
    assert (time.process_time() - began) / 50 < 0.03
