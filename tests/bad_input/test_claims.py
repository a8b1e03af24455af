"""A claim that is not valid is refused with one sentence that has its path."""

import pytest

from tests.bad_input.suites import cases, message, require
from tests.claims import ACCURACY, CONTENT, points
from thinwire.base.errors import UserError
from thinwire.config import claims, expand, suite

SUITE = {
    "models": {"lenet": {"options": {"padding": 2}}},
    "methods": {"ssgd": None, "ssgd_bf16": {"use": "ssgd"}, "thin": {"use": "top_k"}},
}


@pytest.fixture
def refusal(write_suite):
    """The message about a suite whose claims have other values for some keys; None takes a key away."""

    def refused(*changes):
        claims = [{k: v for k, v in (CONTENT | changed).items() if v is not None} for changed in changes]
        write_suite(SUITE | {"claim": claims})
        return message(expand.cells, "bad")

    return refused


WRONG = """
id: 2-a => claim.0.id: an id is three digits and a letter
claim: "two\\nlines" => claim.0.claim: it must be one line
may_say: null => claim.0.may_say: it is missing
nothing: 1 => claim.0.nothing: there is no such key
metric: bytes => claim.0.metric: input should be 'accuracy', 'bits_per_character', 'push'
against: [] => claim.0.against: list should have at least 1 item
method: thim => claim.0.method: the suite has no method 'thim'; the nearest is thin
against: [ssgd, ssgd_bf61] => claim.0.against: the suite has no method 'ssgd_bf61'
against: thin => claim.0.against: thin would be compared with itself
variants: [thim] => claim.0.variants: the suite has no method 'thim'; the nearest is thin
variants: [thin] => claim.0.variants: thin is compared already
models: [lenat] => claim.0.models: the suite has no model 'lenat'; the nearest is lenet
direction: more => claim.0: direction: push takes less
metric: accuracy => claim.0: direction: accuracy takes more, same, not_less
statistic: tost => claim.0: statistic: push and less go with exact_bytes
scope: number => claim.0: margin: scope number needs one
margin: {value: 1, unit: points} => claim.0: margin.unit: that of push is percent
margin: {value: -1, unit: percent} => claim.0.margin.value: input should be greater
at_equal: {metric: push, within_percent: 1} => claim.0: at_equal: it goes with accuracy
at_equal: {metric: accuracy, within_percent: 1} => claim.0.at_equal.metric: input should be 'push', 'pull'
expected: [2, 1] => claim.0: expected: [2.0, 1.0] does not rise
may_say: "{estimates} %" => claim.0.may_say: there is no field 'estimates': the nearest is estimate
may_say: "{estimate" => claim.0.may_say: it is no template
may_not_say: ["{m}"] => claim.0.may_not_say.0: there is no field 'm'
may_say: It is faster. => claim.0: may_say: 'faster' is more than a verdict on push and less
may_say: It has no loss. => claim.0: may_say: 'no loss' is more than a verdict on push
metric: seconds_of_a_step, statistic: ratio => claim.0.metric: seconds_of_a_step needs times: set transport
"""
OF_ACCURACY = [
    ("same", {}, "claim.0: margin: direction same needs one"),
    ("more", points(1.0), "claim.0: margin: direction more takes none"),
    ("more", {"metric": "bits_per_character"}, "claim.0.metric: digits has no bits_per_character; its score"),
    ("same", {"margin": {"value": 0.5, "unit": "percent"}}, "is points unless the direction is not_less"),
    ("same", points(0.3) | {"may_say": "It is better."}, "may_say: 'better' is more than a verdict on"),
    ("not_less", points(0.5) | {"scope": "number"}, "claim.0.scope: a suite on CPUs is too small for a publ"),
]


@pytest.mark.parametrize(
    ("changes", "words"),
    [*cases(WRONG), *((ACCURACY[direction] | more, [words]) for direction, more, words in OF_ACCURACY)],
)
def test_one_sentence_with_the_path(refusal, changes, words):
    require(refusal(changes), words)


def test_an_id_occurs_once(refusal):
    assert "claim.1.id: 002-a occurs twice; number the parts" in refusal({}, {})


def test_the_list_of_untested_claims_is_checked_and_is_no_suite(tmp_path):
    path = tmp_path / "untested.yaml"
    path.write_text("untested: [{id: 002-b, publication: MP2, claim: It is fast.}]")
    with pytest.raises(UserError, match=r"untested\.0\.reason: it is missing"):
        claims.read_untested(path)
    with pytest.raises(UserError, match="there is no suite 'claims/untested'"):
        suite.load("claims/untested")
