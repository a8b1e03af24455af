"""docs/artifact.md is made from the suites, and has every claim."""

from benchmarks import artifact_page, suite_minutes, update_docs
from benchmarks.committed_tables import summary as committed
from tests.docs import pages
from thinwire.config.suite import load

TEXT = update_docs.ARTIFACT.read_text()


def test_the_page_is_up_to_date():
    assert artifact_page.page() == TEXT, "python -m benchmarks.update_docs writes it again"


def test_minutes_are_those_that_somebody_has_measured():
    commands, _, _ = pages.tables(TEXT)
    minutes = {row[0].strip("`"): row[-1] for row in commands[1:]}
    measured = suite_minutes.MINUTES.read_text()
    for suite, shown in minutes.items():
        assert (f"{suite}," in measured) == (shown != "nobody has measured it"), suite


def test_every_claim_of_the_publications_is_in_one_of_the_tables():
    _, tested, untested = pages.tables(TEXT)
    ids = {row[0].partition(".")[0] for row in (*tested[1:], *untested[1:])}
    letters = {"000": "abcde", "001": "abde", "002": "abcde", "003": "abcd", "004": "abc"}
    assert ids == {f"{number}-{letter}" for number, several in letters.items() for letter in several}


def test_what_is_expected_of_the_digits_is_what_the_reference_has():
    reference = committed("claims/mp2_digits").set_index("method")
    column = {"payload": "total", "payload_with_preparation": "total_with_prepared"}
    expected = [claim for claim in load("claims/mp2_digits").claim if claim.expected]
    assert len(expected) == 3
    for claim in expected:
        name = f"{column.get(claim.metric, claim.metric)}_reduction_percent"
        low, high = claim.expected
        assert low <= reference[name][claim.method] <= high, claim.id
