"""What the documentation says of results, claims, and its own length, follows from what is committed."""

import re
import sys
from importlib.metadata import version
from pathlib import Path

import pandas as pd
import pytest

from benchmarks import committed_tables, prose_numbers, study_results, suite_minutes
from benchmarks.committed_tables import summary as committed
from tests.docs import pages
from thinwire.base.errors import UserError
from thinwire.config import claims as claim_files
from thinwire.config import suite
from thinwire.config.expand import cells
from thinwire.plugins import ROOT
from thinwire.simulation.cost import cost_of, devices_by_name

README = (ROOT / "README.md").read_text()
# Words of all pages. It rises only with what the pages describe: methods, tasks, data sets.
LIMIT = 28_000
ARTIFACT = (ROOT / "docs/artifact.md").read_text()
CLAIMS = {name: loaded.claim for name in suite.suite_names() if (loaded := suite.load(name)).claim}

SAVED = {
    "payload saved, %": "total_reduction_percent",
    "between nodes saved, %": "between_nodes_reduction_percent",
}
VERDICTS = {"≠": "different", "=": "no_effect", "?": "inconclusive"}
ACCURACY = re.compile(
    r"(?P<number>\S+) (?P<sign>[%≠=?])"
    r"(?: \((?P<chance>\d+) at chance level\))?(?: \((?P<done>\d+) of (?P<all>\d+) runs\))?"
)


def require_equal(shown, value):
    """A number as it is shown is the value, rounded; the reference itself has six digits."""
    digits = len(shown.partition(".")[2])
    assert abs(float(shown) - value) <= 0.501 * 10**-digits + 1e-5 * abs(value), (shown, value)


def test_the_table_of_the_readme():
    (table,) = pages.tables(README)
    frame = committed("laptop")
    frame = frame[(frame.workers == 16) & (frame.method != "ssgd_again")].set_index(["model", "method"])
    heading, *rows = table
    models = [name.removeprefix("accuracy of ").strip("`") for name in heading[-2:]]
    assert heading[1:-2] == list(SAVED)
    assert {(model, row[0].strip("`")) for row in rows for model in models} == set(frame.index)
    for row in rows:
        for model, text in zip(models, row[-2:]):
            expected, shown = frame.loc[model, row[0].strip("`")], ACCURACY.fullmatch(text)
            baseline = row[0] == "`ssgd`"
            require_equal(shown["number"], expected.score_mean if baseline else expected.gain_mean)
            assert VERDICTS.get(shown["sign"]) == (None if baseline else expected.verdict)
            assert expected.done == int(shown["done"] or 10)
            assert expected.at_chance_level == int(shown["chance"] or 0)
        for shown, column in zip(row[1:-2], SAVED.values()):
            require_equal(shown, frame.loc[(models[0], row[0].strip("`")), column])


def test_the_page_of_the_artifact_names_every_suite_with_claims_and_the_minutes_that_somebody_has_measured():
    assert [name for name in CLAIMS if f"`{name}`" not in ARTIFACT] == []
    minutes = [row.split(",") for row in suite_minutes.MINUTES.read_text().splitlines()[1:]]
    shown = [[f"`{name}`", runs, its] for name, runs, its, processor in minutes if name in CLAIMS]
    assert pages.tables(ARTIFACT)[0][1:] == shown


def test_the_page_of_the_artifact_says_how_many_records_there_are():
    records = len(pd.read_csv(committed_tables.FOLDER / "summary.csv"))
    assert f"`{records} records, {records} sound`" in ARTIFACT


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in CLAIMS if suite.load(name).device == "cuda"])
def test_the_page_of_the_artifact_says_what_suites_on_gpus_cost(name, tmp_path):
    hours = cost_of(cells(name), devices_by_name("a100"), tmp_path).gpu_hours
    assert f"`{name}` ({float(f'{hours:.3g}'):,.0f})" in " ".join(ARTIFACT.split())


def test_every_claim_of_the_publications_is_in_a_suite_or_listed_as_untested():
    claims = [*claim_files.read_untested(), *(claim for of_suite in CLAIMS.values() for claim in of_suite)]
    letters = {"000": "abcde", "001": "abde", "002": "abcde", "003": "abcd", "004": "abc"}
    letters |= {"005": "ab", "006": "abc", "007": "ab"}
    ids = {f"{number}-{letter}" for number, several in letters.items() for letter in several}
    assert {claim.id.partition(".")[0] for claim in claims} == ids


def test_what_is_expected_of_the_digits_is_what_the_reference_has():
    reference = committed("claims/mp2_digits").set_index("method")
    column = {"payload": "total", "payload_with_preparation": "total_with_prepared"}
    expected = [claim for claim in CLAIMS["claims/mp2_digits"] if claim.expected]
    assert len(expected) == 3
    for claim in expected:
        name = f"{column.get(claim.metric, claim.metric)}_reduction_percent"
        low, high = claim.expected
        assert low <= reference[name][claim.method] <= high, claim.id


def test_the_readme_has_at_most_1000_words():
    assert len(README.split()) <= 1000


def test_all_pages_together_are_short():
    """What belongs to no page of the site: results, what tests expect, licences."""
    others = ("datasets/", "results/", "tests/")
    words = {pages.name(path): len(path.read_text().split()) for path in pages.pages()}
    own = {name: count for name, count in words.items() if not name.startswith(others)}
    assert sum(own.values()) <= LIMIT, sorted(own.items(), key=lambda item: -item[1])[:5]


def test_the_environment_takes_the_disk_that_it_says():
    if sys.prefix != str(ROOT / ".venv") or "cu" in version("torch"):
        pytest.skip("this is not the environment of `make setup` with PyTorch's CPU build")
    said = float(re.search(r"they need \(([\d.]+) GB\)", README.replace("\n", " "))[1])
    files = (path.lstat() for path in Path(sys.prefix).rglob("*"))
    assert said / 1.3 < sum(file.st_size for file in files) / 1e9 < said * 1.3


def test_the_figures_in_the_documentation_are_those_of_the_committed_results(tmp_path):
    study_results.draw(tmp_path)
    shown = "".join(path.read_text() for path in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")))
    for picture in (study_results.TRADE_OFF, *study_results.COPIED):
        assert f"{picture})" in shown
        assert (tmp_path / picture).read_bytes() == (ROOT / "docs" / picture).read_bytes()


PAGES = sorted(prose_numbers.read().pages)


@pytest.mark.parametrize("page", PAGES)
def test_every_number_of_the_text_is_that_of_its_table_or_has_a_reason(page):
    text = (ROOT / page).read_text()
    assert prose_numbers.filled(page, text) == text, "python -m benchmarks.update_docs writes the numbers"
    assert prose_numbers.unexplained(page, text) == []


def test_a_typed_number_and_an_old_one_are_found():
    page = "README.md"
    text = (ROOT / page).read_text()
    longer = f"{text}It saves 78.9 %, in `w16`, see [3](a4.md)."
    assert prose_numbers.unexplained(page, longer) == ["78.9", "3"]
    old = re.sub(r"(?<=bytes, and loses )\S+", "12.3", text)
    assert old != text
    assert prose_numbers.filled(page, old) == text
    with pytest.raises(UserError, match=r"README\.md has .* 0 times"):
        prose_numbers.filled(page, text.replace("and loses", "and costs"))


def test_a_number_whose_rows_are_gone_is_no_zero(monkeypatch):
    gone = {"file": "compared", "where": {"verdict": "renamed"}, "column": "method", "take": "count"}
    page = prose_numbers.Page(taken={"in {} pairs": [gone]})
    monkeypatch.setitem(prose_numbers.read().pages, "a.md", page)
    with pytest.raises(UserError, match="no row"):
        prose_numbers.filled("a.md", "It differs in 3 pairs.")
