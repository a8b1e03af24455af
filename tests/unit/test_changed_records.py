"""Every reader of a record finds what was changed after its run; collecting keeps other sound records."""

import json
import os
import shutil
from dataclasses import replace
from itertools import product

import pandas as pd
import pytest

from tests import sound
from thinwire import plugins
from thinwire.audit import compare
from thinwire.base import digests
from thinwire.base.errors import UserError
from thinwire.base.files import write_text
from thinwire.config.grid_subset import Subset
from thinwire.data.dataset import MANIFEST
from thinwire.launch.retry import AttemptEnd, finished, until_it_ends
from thinwire.publish.wandb import suite as wandb_suite
from thinwire.records import record
from thinwire.records.record import CURVE, LOG, RUN, TRAFFIC
from thinwire.report import claims_table as table
from thinwire.report.report import report
from thinwire.report.rows import collect
from thinwire.train.result_files import data_folder, partial_folder, record_folder

SMALL = {"demo": sound.cells("demo")[:2], "claims/mp2_digits": sound.cells("claims/mp2_digits")[:3]}
CELL, OTHER = SMALL["demo"]
FURTHER = SMALL["claims/mp2_digits"]


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """The records of two small suites."""
    folder = tmp_path_factory.mktemp("published")
    for cell in (CELL, OTHER, *FURTHER):
        write_text(data_folder(folder, cell.dataset) / MANIFEST, "{}")
        sound.publish_current(folder, cell)
    return folder


@pytest.fixture
def results(published, tmp_path, monkeypatch):
    """Their copy."""
    for module in (collect, wandb_suite):
        monkeypatch.setattr(module, "cells", lambda suite: SMALL.get(suite, []))
    return shutil.copytree(published, tmp_path / "results")


def with_more_accuracy(folder, other):
    content = json.loads((folder / RUN).read_text())
    content["result"]["test_accuracy_percent"] = 99.9
    (folder / RUN).write_text(json.dumps(content))


def overwritten(name, content):
    return lambda folder, other: (folder / name).write_bytes(content((folder / name).read_bytes()))


def copied(name):
    return lambda folder, other: shutil.copy(other / name, folder / name)


def replaced(folder, other):
    shutil.rmtree(folder)
    shutil.copytree(other, folder)


def with_this_fingerprint(folder, other):
    replaced(folder, other)
    digests.write_json(folder / RUN, digests.read_json(folder / RUN) | {"fingerprint": CELL.fingerprint})


def flip(content):
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


MANIPULATIONS = {
    "accuracy": with_more_accuracy,
    "fingerprint of this cell": with_this_fingerprint,
    "record of another cell": replaced,
    "run.json of another cell": copied(RUN),
    "curve of another run": copied(CURVE),
    "curve cut": overwritten(CURVE, lambda c: c[:-8]),
    "traffic with another bit": overwritten(TRAFFIC, flip),
    "log with another line": overwritten(LOG, lambda c: c + b"done\n"),
    "log missing": lambda folder, other: (folder / LOG).unlink(),
}


def collects(results):
    collect.collect(["demo"], results)


def tracks(results):
    assert wandb_suite.replay("demo", results).runs == 2


def retries(results):
    """As after a process that died while it published."""

    def start(published):
        record_folder(results, CELL).rename(partial_folder(results, CELL))
        assert not published()
        return AttemptEnd([])

    assert until_it_ends(CELL, results, start, False, print) == 0


def blocks(results):
    record_folder(results, CELL).rename(partial_folder(results, CELL))
    if not finished(CELL, results):
        raise UserError("run.json is refused, and is made again")


READERS = {"collect": collects, "track": tracks, "retry": retries, "block": blocks}
# All read by the same function; before a record is published its log may grow.
CASES = [("collect", name) for name in MANIPULATIONS]
CASES += product([*READERS][1:], ("accuracy", "curve cut", "record of another cell"))


@pytest.mark.parametrize(("reader", "name"), CASES)
def test_every_change_is_found(results, reader, name):
    MANIPULATIONS[name](record_folder(results, CELL), record_folder(results, OTHER))
    with pytest.raises(UserError) as refusal:
        READERS[reader](results)
    text = str(refusal.value)
    assert "\n" not in text
    assert any(file in text for file in record.FILES)
    assert "again" in text, "a way out is named"


@pytest.mark.parametrize("reader", READERS)
def test_an_unchanged_record_is_read(results, reader, monkeypatch):
    """Also if it was only formatted differently, or copied."""
    monkeypatch.setattr(wandb_suite, "_replay", lambda *_: (results / "wandb").mkdir(exist_ok=True))
    monkeypatch.setattr(wandb_suite, "publish", lambda *_: None)
    path = record_folder(results, CELL) / RUN
    path.write_text(json.dumps(json.loads(path.read_text()), sort_keys=True))
    os.utime(path, (1, 1))
    READERS[reader](results)


def test_a_missing_record_is_named_with_the_command_that_makes_it(results):
    (record_folder(results, CELL) / RUN).unlink()
    with pytest.raises(UserError) as refusal:
        collects(results)
    command = f"or make this run again with `thinwire run demo {CELL.path} --results {results}`"
    assert str(refusal.value).endswith(f"run.json is missing: start the pipeline again, {command}")


@pytest.mark.parametrize("reader", READERS)
def test_a_plug_in_that_was_changed_and_kept_its_time_is_found(tmp_path, monkeypatch, results, reader):
    for kind in plugins.CLASS:
        shutil.copytree(plugins.ROOT / f"{kind}s", tmp_path / "plugins" / f"{kind}s")
    monkeypatch.setattr(plugins.find, "__defaults__", (tmp_path / "plugins",))
    path = tmp_path / "plugins/methods/ssgd.py"
    os.utime(path, (1, 1))
    collects(results)
    path.write_text(path.read_text() + "# another version\n")
    os.utime(path, (1, 1))
    words = "refused" if reader == "block" else "another file of the method than there is now: .* again"
    with pytest.raises(UserError, match=words):
        READERS[reader](results)


COLLECTED = {
    "summary edited": (collect.SUMMARY, lambda c: c.replace(b"done", b"failed")),
    "summary empty": (collect.SUMMARY, lambda c: b""),
    "curves with another bit": (collect.CURVES, flip),
    "curves cut": (collect.CURVES, lambda c: c[:-8]),
    "digests edited": (collect.COLLECTED, lambda c: c.replace(b"a", b"b")),
    "digests not UTF-8": (collect.COLLECTED, lambda c: b"\xff" + c),
}


@pytest.mark.parametrize("name", COLLECTED)
def test_a_report_needs_the_collected_files_unchanged(results, name):
    collects(results)
    file, change = COLLECTED[name]
    (results / file).write_bytes(change((results / file).read_bytes()))
    command = rf"`thinwire collect demo --results {results}`"
    with pytest.raises(UserError, match=rf"{file}.*: run {command} \(or the pipeline\) first"):
        report("demo", results)
    assert not (results / "tables").exists()


def test_tables_and_figures_that_only_an_earlier_report_had_are_deleted(results):
    """The suite was simulated then, and is not any more."""
    collects(results)
    earlier = [results / "tables/demo/times.csv", results / "figures/demo/bandwidth.png"]
    for path in earlier:
        write_text(path, "earlier")
    report("demo", results)
    signed = digests.read_json(results / "tables/demo/digests.json")["files"]
    assert "tables/demo/summary.csv" in signed
    assert not signed.keys() & {str(path.relative_to(results)) for path in earlier}
    assert not any(path.exists() for path in earlier)


@pytest.mark.parametrize("reader", [lambda r: compare.compare(r, r), table.table], ids=["compare", "claims"])
@pytest.mark.parametrize("content", [b"", b"\xff", b'suite\n"', b"method\nssgd\n"])
def test_a_damaged_summary_is_one_sentence_to_all_who_ask_it_for_its_suites(results, reader, content):
    """Also if its digest was made anew."""
    collects(results)
    (results / collect.SUMMARY).write_bytes(content)
    files = digests.of_files(results, [collect.SUMMARY])
    digests.write_json(results / collect.COLLECTED, {"files": files})
    with pytest.raises(UserError, match=r"summary\.csv .*: run `thinwire collect \S+ --results \S+` \(or"):
        reader(results)


def kept(results):
    """The numbers of runs by suite in all collected files."""
    runs = pd.read_csv(results / collect.SUMMARY)
    curves = pd.read_parquet(results / collect.CURVES)
    counts = runs.suite.value_counts().to_dict()
    assert {suite: len(of) // 3 for suite, of in curves.groupby("suite")} == counts
    # Rows are sums so far, and a run here sends one kind of payload by one verb: the last row is its traffic.
    traffic = pd.read_parquet(results / collect.TRAFFIC)
    assert traffic.suite.value_counts().to_dict() == counts
    assert set(traffic.epoch) == {curves.epoch.max()}
    return counts


def test_the_suites_of_earlier_calls_and_other_runs_of_a_suite_are_kept_in_its_order(results):
    def collected(*arguments):
        assert collect.collect(*arguments) == []
        return collect.read_summary(results, "demo").reset_index(drop=True)

    whole = collected(["demo"], results)
    for words in ("methods=ssgd", "methods=ssgd_bf16"):
        pd.testing.assert_frame_equal(collected(["demo"], results, Subset.of_words([words])), whole)
    pd.testing.assert_frame_equal(collected(["claims/mp2_digits"], results), whole)
    assert kept(results) == {"demo": 2, "claims/mp2_digits": 3}


def test_other_records_that_are_missing_out_of_date_or_damaged_are_left_out_with_a_sentence(results):
    shutil.rmtree(record_folder(results, FURTHER[0]))
    folder = record_folder(results, FURTHER[1])
    shutil.rmtree(folder)
    sound.publish(results, replace(FURTHER[1], suite_seed=7))
    (record_folder(results, FURTHER[2]) / CURVE).write_bytes(b"")
    (sentence,) = collect.collect(["demo"], results)
    assert sentence.startswith("left out of summary.csv: 2 records of suite claims/mp2_digits; the first: ")
    assert f"{folder / RUN} was made with other options" in sentence
    assert "(suite_seed): start the pipeline again, or make this run again with" in sentence
    assert kept(results) == {"demo": 2}
    with pytest.raises(UserError, match=r"run\.json is missing"):
        collect.collect(["claims/mp2_digits"], results)


def test_a_record_outside_the_subset_need_not_be_sound(results):
    (record_folder(results, OTHER) / LOG).write_text("changed\n")
    (sentence,) = collect.collect(["demo"], results, Subset.of_words([f"methods={CELL.method.label}"]))
    assert sentence.startswith("left out of summary.csv: 1 record of suite demo; ")
    assert len(collect.read_summary(results, "demo")) == 1


def test_records_of_a_suite_that_is_gone_or_broken_are_left_out_with_a_sentence(results, monkeypatch):
    gone = record_folder(results, replace(FURTHER[0], suite="gone"))
    shutil.copytree(record_folder(results, FURTHER[0]), gone)

    def refuse(suite):
        raise UserError("config/claims/mp2_digits.yaml: seed: Field required")

    monkeypatch.setattr(collect, "cells", lambda suite: SMALL["demo"] if suite == "demo" else refuse(suite))
    assert collect.collect(["demo"], results) == [
        "left out of summary.csv: 3 records of suite claims/mp2_digits; the first: "
        "config/claims/mp2_digits.yaml: seed: Field required",
        f"left out of summary.csv: 1 record without a cell in any suite of config/; the first: {gone}: "
        "delete it, or restore its suite",
    ]
    assert kept(results) == {"demo": 2}
