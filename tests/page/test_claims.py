"""The scorecard of claims: one verdict for all places of a claim."""

import pytest

from thinwire.publish.page.claims_and_tracks import DIFFERS, NO_RUNS, scorecard


@pytest.fixture(scope="module")
def made(results):
    return scorecard(results)


def test_places_make_one_verdict_and_those_that_decide_come_first(made):
    assert made.verdicts == ["held", "contradicted", DIFFERS, "no effect", "not testable here", NO_RUNS]
    found = [(claim.id, claim.verdict, claim.places_alike) for claim in made.claims]
    assert found == [
        ("002-a", "held", "1 of 1"),
        ("002-b", DIFFERS, "1 of 2 held"),
        ("002-e", DIFFERS, "1 of 2 held"),
        ("002-d", "no effect", "1 of 2"),
        ("009-z", "not testable here", ""),
        ("003-a", NO_RUNS, ""),
    ]


def test_claims_are_counted_by_publication_and_in_all(made):
    assert made.counts == [
        ("HSGD", [0, 0, 0, 0, 1, 1]),
        ("MP2", [1, 0, 2, 1, 0, 0]),
        ("", [1, 0, 2, 1, 1, 1]),
    ]


def test_the_published_number_stands_beside_the_range_of_our_runs(made):
    held, differs, *_ = made.claims
    space = "\N{NO-BREAK SPACE}"
    assert (held.published, held.ours) == ("", f"44.00{space}%")
    assert (differs.published, differs.ours) == (f"50{space}%", f"44.00 to 120{space}%")
    assert held.reconstructed
    assert held.marks == ""
    place, simulated = held.places
    assert (place.estimate, place.marks) == (f"44.00 (40.00 to 48.00){space}%", "reconstructed")
    assert simulated.verdict == "not testable here"


def test_a_claim_says_how_its_seconds_were_made_and_that_it_is_post_hoc(made):
    assert {claim.id: claim.marks for claim in made.claims}["002-e"] == "emulated, partly post hoc"
