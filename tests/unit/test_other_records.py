"""Collecting some suites keeps the runs of the others, as long as their records are sound and current."""

import shutil
from dataclasses import replace

import pandas as pd
import pytest

from tests import sound
from thinwire import record
from thinwire.config.grid_subset import of_words
from thinwire.errors import UserError
from thinwire.report import collect, other_records
from thinwire.train.result_folders import record_folder

SMALL = {"demo": sound.cells("demo")[:2], "claims/mp2_digits": sound.cells("claims/mp2_digits")[:3]}
OTHER = SMALL["claims/mp2_digits"]


@pytest.fixture
def results(tmp_path, monkeypatch):
    """The records of two small suites."""
    for module in (collect, other_records):
        monkeypatch.setattr(module, "cells", lambda suite: SMALL.get(suite, []))
    for cell in (*SMALL["demo"], *OTHER):
        sound.publish(tmp_path, cell)
    return tmp_path


def kept(results):
    """The numbers of runs by suite in both collected files."""
    runs = pd.read_csv(results / collect.SUMMARY)
    curves = pd.read_parquet(results / collect.CURVES)
    counts = runs.suite.value_counts().to_dict()
    assert {suite: len(of) // 3 for suite, of in curves.groupby("suite")} == counts
    return counts


def test_the_suites_of_earlier_calls_are_kept(results):
    assert collect.collect(["demo"], results) == []
    before = collect.read_summary(results, "demo")
    assert collect.collect(["claims/mp2_digits"], results) == []
    assert kept(results) == {"demo": 2, "claims/mp2_digits": 3}
    pd.testing.assert_frame_equal(
        collect.read_summary(results, "demo").reset_index(drop=True), before.reset_index(drop=True)
    )


def test_a_subset_keeps_the_other_runs_of_its_suite_in_the_order_of_the_suite(results):
    collect.collect(["demo"], results)
    whole = (results / collect.SUMMARY).read_bytes()
    for method in (cell.method.label for cell in SMALL["demo"]):
        assert collect.collect(["demo"], results, of_words([f"methods={method}"])) == []
        assert (results / collect.SUMMARY).read_bytes() == whole


def test_a_suite_that_is_only_partly_there_is_kept_as_far_as_it_is(results):
    shutil.rmtree(record_folder(results, OTHER[0]))
    assert collect.collect(["demo"], results) == []
    assert kept(results) == {"demo": 2, "claims/mp2_digits": 2}


def test_records_that_are_out_of_date_or_damaged_are_left_out_with_a_sentence(results):
    folder = record_folder(results, OTHER[1])
    shutil.rmtree(folder)
    outdated = replace(OTHER[1], suite_seed=7)
    sound.publish(results, outdated)
    (record_folder(results, OTHER[2]) / record.CURVE).write_bytes(b"")
    (sentence,) = collect.collect(["demo"], results)
    assert sentence.startswith("left out of summary.csv: 2 records of suite claims/mp2_digits; the first: ")
    assert f"{folder / record.RUN} was made with other options" in sentence
    assert "(suite_seed): start the pipeline again, or make this run again with" in sentence
    assert kept(results) == {"demo": 2, "claims/mp2_digits": 1}


def test_records_of_a_suite_that_is_gone_or_broken_are_left_out_with_a_sentence(results, monkeypatch):
    gone = record_folder(results, replace(OTHER[0], suite="gone"))
    shutil.copytree(record_folder(results, OTHER[0]), gone)

    def refuse(suite):
        raise UserError("config/claims/mp2_digits.yaml: seed: Field required")

    monkeypatch.setattr(other_records, "cells", refuse)
    broken, unknown = collect.collect(["demo"], results)
    assert broken == (
        "left out of summary.csv: 3 records of suite claims/mp2_digits; the first: "
        "config/claims/mp2_digits.yaml: seed: Field required"
    )
    assert unknown == (
        f"left out of summary.csv: 1 record without a cell in any suite of config/; the first: {gone}: "
        "delete it, or restore its suite"
    )
    assert kept(results) == {"demo": 2}


def test_a_chosen_suite_must_be_whole(results):
    shutil.rmtree(record_folder(results, OTHER[0]))
    with pytest.raises(UserError, match=r"run\.json is missing"):
        collect.collect(["claims/mp2_digits"], results)
