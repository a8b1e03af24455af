"""docs/artifact.md has every suite with claims; every claim of the publications is in one, or is listed."""

from benchmarks import suite_minutes
from benchmarks.committed_tables import summary as committed
from tests.docs import pages
from thinwire.config import claims as claim_files
from thinwire.config import suite
from thinwire.plugins import ROOT

TEXT = (ROOT / "docs/artifact.md").read_text()
CLAIMS = {name: loaded.claim for name in suite.suite_names() if (loaded := suite.load(name)).claim}


def test_the_page_names_every_suite_with_claims_and_the_minutes_that_somebody_has_measured():
    assert [name for name in CLAIMS if f"`{name}`" not in TEXT] == []
    minutes = [row.split(",") for row in suite_minutes.MINUTES.read_text().splitlines()[1:]]
    shown = [[f"`{name}`", runs, its] for name, runs, its, processor in minutes if name in CLAIMS]
    assert pages.tables(TEXT)[0][1:] == shown


def test_every_claim_of_the_publications_is_in_a_suite_or_listed_as_untested():
    claims = [*claim_files.read_untested(), *(claim for of_suite in CLAIMS.values() for claim in of_suite)]
    letters = {"000": "abcde", "001": "abde", "002": "abcde", "003": "abcd", "004": "abc"}
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
