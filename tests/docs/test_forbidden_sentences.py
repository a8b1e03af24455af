"""No text of the project says what no result supports."""

import pytest

from tests.docs import pages
from tests.docs.forbidden_sentences import forbidden_sentences
from thinwire.report.claims import table


@pytest.mark.parametrize("path", pages.pages(), ids=pages.name)
def test_no_page_has_one(path):
    assert forbidden_sentences(path.read_text()) == []


def test_the_table_of_claims_has_none(tmp_path):
    claims, _ = table.table(tmp_path)
    assert forbidden_sentences(table.markdown(claims)) == []
    for said in claims.says:
        assert forbidden_sentences(said) == []


@pytest.mark.parametrize(
    "sentence",
    [
        "Here we reproduce MP2.",
        "The published numbers are wrong.",
        "HSGD is 20 times faster.",
        "DASO saves 34 % of the time.",
        "DASO saves 34 % against SSGD on this cluster.",
        "MP2 reduces traffic by 88.98 %.",
        "MP2 trains with no loss of accuracy.",
        "On one node `top_k` is faster.",
        "DGC sends 277 times less.",
        "It was measured on real hardware.",
        "On digits, DASO fails because weights are late.",
        "On LeNet, `mp2` reduces traffic by 87.97 %.",
    ],
)
def test_one_is_found_wherever_it_stands(sentence):
    assert len(forbidden_sentences(f"All is well. {sentence} The rest is well, too.")) >= 1
    assert forbidden_sentences(f"| a | {sentence} | b |\n- c")


@pytest.mark.parametrize(
    "sentence",
    [
        "MP2 reduces traffic by 88.98 % (push alone, 64 over 32 bits).",
        "Our simulation of DASO saves 34 % against SSGD on links of 0.6 GB/s.",
        "There is no loss of 0.5 points or more.",
        "With links of 1 Gbit/s, `top_k` takes fewer seconds, so it is faster.",
        "After the warm-up, a message of DGC is 277 times smaller.",
        "Times on emulated nodes are not times on real hardware.",
    ],
)
def test_with_what_makes_it_right_it_may_be_said(sentence):
    assert forbidden_sentences(sentence) == []
