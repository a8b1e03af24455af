"""What is written into the page, without a browser."""

import json
import math
import re
import shutil

import pandas as pd
import pytest
from matplotlib.colors import to_hex

from tests import project, simulated
from tests.page.results_of_demo import OF_STEP
from tests.unit import test_track
from thinwire.base import digests
from thinwire.base.errors import UserError
from thinwire.base.folders import REFERENCE
from thinwire.config.entries import baselines
from thinwire.config.expand import cells
from thinwire.config.suite import load
from thinwire.plugins import ROOT
from thinwire.publish.page import claims_and_tracks, page
from thinwire.publish.page.data import columns, looks
from thinwire.publish.page.page import break_even, speed_ups_of
from thinwire.records import record
from thinwire.report import report_files, track_scores
from thinwire.report.figures import looks as looks_of_figures
from thinwire.report.figures.times_map import LEAST_GAIN
from thinwire.report.plan_table import Known, fastest
from thinwire.report.report_files import PAGE
from thinwire.simulation import simulated_file


@pytest.fixture(scope="module")
def text(results):
    return (results / PAGE).read_text()


def content(text):
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])


def test_the_page_has_the_same_bytes_on_a_rerun_also_if_a_method_was_added(results, tmp_path, monkeypatch):
    before = (results / PAGE).read_bytes()
    project.add_method(tmp_path, monkeypatch)
    assert page.write(results).read_bytes() == before


def test_the_committed_results_fit_into_three_megabytes_with_the_libraries(text):
    assert 500_000 < len(text.encode()) < (ROOT / REFERENCE / PAGE).stat().st_size < 3_000_000


def test_the_scorecard_is_shown_before_any_script_runs(text):
    assert text.index('id="claim-counts"') < text.index("<script")


def test_methods_are_drawn_as_in_figures():
    drawn = looks(looks_of_figures._KNOWN, ["ssgd"])
    for method, of_page in drawn.items():
        look = looks_of_figures.look(method)
        assert of_page["colour"] == "var(--text)" or to_hex(look.colour) in of_page["colour"]
        assert of_page["dash"] == [2 * length for length in look.dash]
    shapes = {looks_of_figures.look(method).marker: of_page["shape"] for method, of_page in drawn.items()}
    assert len(set(shapes.values())) == len(shapes)


def shown_together():
    """Of the committed results the labels that stand in one table, each with whether it is a baseline."""
    summary = pd.read_csv(ROOT / REFERENCE / "summary.csv", usecols=["suite", "method"], dtype=str)
    without_data = simulated_file.read_times(ROOT / REFERENCE)
    for suite, rows in pd.concat([summary, without_data]).groupby("suite"):
        against = baselines(load(suite))
        # A figure of docs/ has both with one look.
        yield {label: label in against for label in rows.method.unique() if label != "mp2_seed0"}


def test_labels_of_the_committed_results_that_are_shown_together_look_different():
    for labels in shown_together():
        drawn = [looks_of_figures.look(*label)[:2] for label in labels.items()]
        assert len(set(drawn)) == len(drawn), labels


def test_methods_of_one_map_of_the_committed_results_have_different_colours():
    """A cell of the map is told by its colour alone."""
    every = simulated_file.read_times(ROOT / REFERENCE)
    for _, rows in every.groupby(["suite", "dataset", "model", "accelerator"]):
        for states in ([*Known], [Known.SAME]):
            best = fastest(rows, states)
            methods = best.method[best.gain >= LEAST_GAIN].unique()
            assert len({looks_of_figures.look(method).colour for method in methods}) == len(methods)


def test_the_page_of_the_committed_results_opens_with_the_suite_with_most_runs():
    names = [suite["name"] for suite in content((ROOT / REFERENCE / "index.html").read_text())["suites"]]
    runs = pd.read_csv(ROOT / REFERENCE / "summary.csv", usecols=["suite"]).suite.value_counts()
    assert [runs[name] for name in names] == sorted(runs, reverse=True)


def test_every_run_has_the_path_of_its_record(results, text):
    (suite,) = content(text)["suites"]
    paths = suite["tables"]["runs"]["path"]
    assert len(set(paths["words"])) == len(paths["codes"]) == 18
    assert set(paths["words"]) < {cell.path for cell in cells("demo")}
    assert all((results / "runs/demo" / path / record.RUN).is_file() for path in paths["words"])


def test_cells_with_most_workers_are_offered_first(text):
    cells = content(text)["suites"][0]["cells"]
    assert [cell["name"] for cell in cells] == ["digits, cnn, 8 workers on 2 nodes", "digits, cnn, 4 workers"]


def test_no_text_of_a_run_ends_the_script_that_holds_it(text):
    (suite,) = content(text)["suites"]
    assert "</script><b>it's <broken>" in suite["tables"]["runs"]["reason"]["words"]
    assert "<b>it" not in text
    assert "<broken>" not in text


def test_a_method_is_shown_as_its_module_describes_it(text):
    article = re.search(r'<details id="method-top_k">.*?</details>', text, re.DOTALL)[0]
    assert "Top-k with error feedback" in article
    assert "<code>density</code>" in article
    assert re.search(r"<th scope=\"row\">k is rounded up</th>\s*<td>related work</td>", article)
    assert "reconstructed" not in article
    ssgd = re.search(r'<details id="method-ssgd">.*?</details>', text, re.DOTALL)[0]
    assert "is an ablation, and no baseline, with {&#39;overlap&#39;: False}" in ssgd


def test_tables_that_are_missing_are_one_sentence_with_the_command_that_makes_them(plain, tmp_path):
    shutil.copytree(plain, tmp_path / "results")
    shutil.rmtree(tmp_path / "results/tables")
    (tmp_path / "results/simulated/demo.csv").unlink()
    text = page.write(tmp_path / "results").read_text()
    found = content(text)
    assert set(found["suites"][0]["tables"]) == {"runs", "curves", "ledgers"}
    assert 'data-without="summary"' in text
    assert "<code>thinwire claims</code> makes them" in text
    # Nor is there a section of times that were simulated without data.
    assert found["times"] is None
    assert 'id="plan"' not in text
    assert "choosePoint" not in text


def test_one_repetition_shows_neither_differences_nor_epochs_to_a_target(results, tmp_path):
    shutil.copytree(results, tmp_path / "results")
    folder = tmp_path / "results/tables/demo"
    pd.read_csv(folder / "comparisons.csv").assign(n=1).to_csv(folder / "comparisons.csv", index=False)
    pd.read_csv(folder / "to_target.csv")[:0].to_csv(folder / "to_target.csv", index=False)
    report_files.write_digests(tmp_path / "results", "demo")
    (suite,) = content(page.write(tmp_path / "results").read_text())["suites"]
    made = suite["tables"]["summary"]
    nothing = {"every": None, "rows": len(made["method"]["codes"])}
    assert made["words"] == made["epochs_median"] == made["gain_mean"] == nothing


def test_the_name_the_mark_and_the_title_of_a_method_are_apart(plain, monkeypatch):
    monkeypatch.setattr(page, "is_reconstructed", lambda name: name == "ssgd")
    for name, words in (("ssgd", "ssgd reconstructed Synchronous SGD:"), ("top_k", "top_k Top-k with")):
        summary = re.search(rf'<details id="method-{name}">.*?</summary>', page.html(plain), re.DOTALL)[0]
        shown = re.sub(r"<[^>]*>", "", summary)
        assert " ".join(shown.split()).startswith(words)


def test_times_without_data_are_addressed_by_method_place_and_link(text):
    times = content(text)["times"]
    (network,) = times["networks"]
    places, links = network["places"], network["links"]
    at = places.index([16, 4]), links.index([1, 0.025])
    assert (places, links) == (sorted(places), sorted(links))
    bf16, top_k, unknown = (network["methods"].index(name) for name in ("ssgd_bf16", "top_k", "sparse_loco"))
    assert network["milliseconds"][top_k][at[0]][at[1]] == 71
    assert network["computing"][top_k][at[0]] == 30, "the same over all links"
    assert network["bytes"][bf16][at[0]] == 20e6
    assert network["milliseconds"][unknown][places.index([16, 2])] is None
    assert set(network["baseline"]) == {"ssgd_bf16"}
    assert set(network["validated"]) == {False}


def test_methods_without_data_say_their_class_and_what_is_known_of_them(text):
    methods = content(text)["times"]["methods"]
    assert set(methods) == set(OF_STEP)
    assert methods["ssgd_bf16"]["colour"] == "var(--text)"
    assert (methods["ssgd_bf16"]["module"], methods["ssgd_bf16"]["known"]) == ("ssgd", "baseline")
    assert (methods["top_k"]["class"], methods["top_k"]["known"]) == ("all-gather", "changed")
    assert 0 < methods["top_k"]["error_percent"] < 5
    assert (methods["sparse_loco"]["known"], methods["sparse_loco"]["accuracy"]) == ("unknown", None)
    assert 'id="method-sparse_loco"' in text, "a link leads there"


def test_records_in_an_archive_are_linked_there(plain, tmp_path):
    assert content(page.html(plain))["suites"][0]["archive"] is None
    shutil.copytree(plain, tmp_path / "results")
    (tmp_path / "results/records").mkdir()
    (tmp_path / "results/records/demo.tar.xz").touch()
    assert content(page.html(tmp_path / "results"))["suites"][0]["archive"] == "records/demo.tar.xz"


def test_there_is_nothing_to_show(tmp_path):
    with pytest.raises(UserError, match=r"summary\.csv is missing: run the pipeline"):
        page.write(tmp_path)
    (tmp_path / "summary.csv").write_text("suite,dataset\n")
    files = digests.of_files(tmp_path, ["summary.csv"])
    digests.write_json(tmp_path / "collected.json", {"files": files, "records": {}})
    with pytest.raises(UserError, match=r"summary\.csv has no runs: run the pipeline"):
        page.write(tmp_path)


def replaced(name, old, new):
    return lambda results: (results / name).write_text((results / name).read_text().replace(old, new, 1))


def written(name, content):
    return lambda results: (results / name).write_text(content)


def json_with(name, **more):
    return lambda results: digests.write_json(results / name, digests.read_json(results / name) | more)


def then_noted(change):
    """As somebody would who has changed a table and makes the digests anew."""

    def changed(results):
        change(results)
        report_files.write_digests(results, "demo")

    return changed


RECORD, TABLES = "runs/demo/digits/cnn/ssgd/w4/seed0/run.json", "tables/demo"
AGAIN = "again with `thinwire report"
DAMAGES = [
    (json_with("collected.json", records={}), "collected.json is of an earlier version: run `thin"),
    (json_with(RECORD, interruptions=1), "run.json is not the record that was collected: run `thinwire coll"),
    (written(RECORD, "{}"), "run `thinwire collect demo"),
    (written("summary.csv", "suite\ndemo\n"), "summary.csv is not as it was collected"),
    (then_noted(written(f"{TABLES}/summary.csv", "dataset\ndigits\n")), "a table of demo lacks a column"),
    (then_noted(written(f"{TABLES}/times.csv", "")), "times.csv cannot be read"),
    *(
        (replaced(f"{TABLES}/{file}", "1", "2"), f"{file} was changed .*: make (it|the tables) {AGAIN}")
        for file in ("summary.csv", "comparisons.csv", "to_target.csv", "times.csv", "digests.json")
    ),
    (replaced("simulated/demo.csv", "100.0", "1000.0"), "the tables of demo were made from other times than"),
    (written("claims.csv", "id\n1\n"), "claims.csv was changed .*: make it again with `thinwire claims"),
]


@pytest.mark.parametrize(("damage", "words"), DAMAGES)
def test_what_is_damaged_edited_or_of_an_earlier_version_is_not_shown(results, tmp_path, damage, words):
    shutil.copytree(results, tmp_path / "results")
    damage(tmp_path / "results")
    with pytest.raises(UserError, match=words):
        page.html(tmp_path / "results")


def test_columns_hold_each_text_once_and_say_what_is_missing():
    frame = simulated.rows(simulated.row("a", 10.0), simulated.row("b", float("inf"), baseline=None))
    made = columns(frame[["method", "baseline", "step_seconds", "own_rate", "workers"]])
    assert made["method"] == {"words": ["a", "b"], "codes": [0, 1]}
    assert made["baseline"] == {"words": ["ssgd"], "codes": [0, -1]}
    assert made["step_seconds"] == [0.01, "inf"]
    assert made["own_rate"] == [True, True]
    assert json.dumps(made["workers"]) == "[8, 8]"
    often = pd.DataFrame(
        {"bytes": [1_000_000.0, math.nan, 0.5, 1_000_000.0] * 3, "rate": math.inf, "kind": "simulated"}
    )
    assert columns(often) == {
        "bytes": {"words": [1_000_000, 0.5], "codes": [0, -1, 1, 0] * 3},
        "rate": ["inf"] * 12,
        "kind": {"every": "simulated", "rows": 12},
    }


def test_break_even_is_found_for_each_place_that_has_several_rates():
    rows = [
        simulated.row(method, rate_gbit_per_second=rate, speed_up=speed_up, cluster=cluster)
        for cluster in ("near", "far")
        for method, each in {"fast": (2.0, 0.5, 2.0), "slow": (0.5, 0.4, 0.4)}.items()
        for rate, speed_up in zip((1.0, 100.0, 1e4), each)
        if cluster == "near" or rate == 1.0
    ]
    found = break_even(speed_ups_of(simulated.rows(*rows)))
    assert found.method.tolist() == ["fast", "fast", "slow"]
    assert found.place.str.startswith("near, ").all()
    assert found.to_gbit_per_second.tolist()[:2] == [pytest.approx(10), math.inf]
    assert found.from_gbit_per_second.tolist()[:2] == [0, pytest.approx(1000)]
    assert found.from_gbit_per_second.isna().tolist() == [False, False, True]


def test_a_track_has_its_leader_board_with_tier_date_and_commit(plain, tmp_path, monkeypatch):
    assert 'id="tracks"' not in page.html(plain)
    results = shutil.copytree(plain, tmp_path / "results")
    records = [test_track.record("ssgd", 3.4, revision="12345678"), test_track.record("thin", 4.0, 3.6)]
    made = track_scores.table(track_scores.scores(test_track.TRACK, records, test_track.SECONDS))
    report_files.write_table(made, results / "tables/demo/scores.csv")
    report_files.write_digests(results, "demo")
    monkeypatch.setattr(claims_and_tracks, "load", lambda name: load("tracks/v1"))
    text = page.html(results)
    section = re.search(r'<section id="tracks".*?</section>', text, re.DOTALL)[0]
    rows = [
        re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall(r"<tr>(.*?)</tr>", section, re.DOTALL)
    ]
    ssgd, thin = rows[1:]
    told = ["1 of 1", "", "reported", "2026-11-26", "12345678"]
    assert ssgd == ["1", '<a href="#method-ssgd">ssgd</a>', "2.00", "10", "200.0", *told]
    # The page has no section of a method that was submitted.
    assert thin[1:4] == ["thin", track_scores.NO_SCORE, ""]
    assert 'data-value="2.0"' in section
    assert '<a href="#tracks">' in text
