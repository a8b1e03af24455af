"""No text of the project says what no result supports.

Pages and claims are searched for the sentences below, and for the templates `may_not_say` of all claims.
"""

import re
import string
from functools import cache
from typing import NamedTuple

import pytest

from tests.docs import pages
from thinwire.config import suite as suites
from thinwire.config.claims import Claim
from thinwire.report import claims_table as table


class Forbidden(NamedTuple):
    """A kind of sentence."""

    pattern: str  # what the sentence has
    unless: str | None  # what makes it right, in the same sentence
    reason: str


_METHODS = (
    r"\b(?:hsgd|daso|hylo|mp2|wnn|dgc|top_k|top-k|multi_step_delay|multi-step delay|local_sgd|local sgd)\b"
)
FORBIDDEN = (
    Forbidden(
        r"\bwe (?:can |could |have )?reproduced?\b",
        None,
        "methods are written again from abstracts and public code: that tests a claim and reproduces nothing",
    ),
    Forbidden(
        r"\b(?:published|authors'?|their|reported) (?:numbers?|figures?|results?|claims?) "
        r"(?:is|are|was|were) (?:wrong|false|incorrect|not true)|\bauthors are wrong\b",
        None,
        "a verdict holds where it was found, and the authors had another program and other machines",
    ),
    Forbidden(
        r"\bhsgd\b.*\b(?:20|twenty)(?:[ -]?(?:times|fold)\b| ?[x\u00d7])",
        r"\bnaive\b|\bserver\b|\bN0\b",
        "HSGD's ratio depends on what it is compared with: name that baseline",
    ),
    Forbidden(
        r"\bdaso\b.*\b34 ?(?:%|percent)",
        r"(?=.*\b(?:cluster|nodes|link|GB/s|Gbit/s)\b)(?=.*\b(?:against|than|baseline)\b)"
        r"(?=.*\b(?:simulat\w*|emulat\w*|measured)\b)",
        "DASO's time depends on the cluster, the baseline and how it was found: name all three",
    ),
    Forbidden(
        r"(?:reduc|sav|\bless\b|\bcut).*\b88\.98|\b88\.98.*(?:reduc|sav|\bless\b|\bcut)",
        r"(?=.*\bpush)(?=.*\b64\b)|\bmargin\b",
        "88.98 % are of the push alone, in 64 over 32 bits: say so",
    ),
    Forbidden(
        # In italics or quotes, the words are only mentioned.
        r"(?<![*`\"“])\b(?:no|without) (?:any )?(?:loss|losing)\b(?: (?:of|in) (?:test )?accuracy)?",
        r"\b(?:of|within|than|below) \d|\bpackets?\b",
        "a test that finds no difference has not found equality: give the margin",
    ),
    Forbidden(
        rf"{_METHODS}.*\bfaster\b|\bfaster\b.*{_METHODS}",
        r"\bseconds?\b|\btimes?\b|\bms\b|\bsimulat\w*|\brates?\b",
        "fewer bytes are not less time: give seconds",
    ),
    Forbidden(
        r"\b277 ?(?:times|x|\u00d7)",
        r"\bwarm-?up\b",
        "277 is the ratio of one message after the warm-up, and not that of a run",
    ),
    Forbidden(
        r"\bon real hardware\b",
        r"\b(?:not|never|no)\b",
        "emulated nodes are namespaces of one machine",
    ),
    Forbidden(
        rf"{_METHODS}[^.]*\bfails? because\b",
        None,
        "a small network and one data set show that a method has failed there, and not why",
    ),
)
# A sentence ends at a stop before a space, at an empty line, at the end of a cell or of an item of a list.
_ENDS = re.compile(r"(?<=[.!?])[\"”*`)]*\s|\n\s*\n|\n(?=\s*[-*|#] ?)|\s\|\s|<[^>]*>")


def forbidden_sentences(text: str) -> list[str]:
    """Each sentence of a text that is forbidden, with the reason.

    Args:
        text: plain, Markdown, HTML or Typst.
    """
    sentences = (" ".join(part.split()) for part in _ENDS.split(text))
    return [
        f"{sentence!r}: {kind.reason}"
        for sentence in sentences
        for kind in (*FORBIDDEN, *_of_claims())
        if re.search(kind.pattern, sentence, re.IGNORECASE)
        and not (kind.unless and re.search(kind.unless, sentence, re.IGNORECASE))
    ]


@cache
def _of_claims() -> tuple[Forbidden, ...]:
    """What the claims of all suites forbid."""
    claims = (claim for name in suites.suite_names() for claim in suites.load(name).claim)
    return tuple(dict.fromkeys(_of_template(claim, text) for claim in claims for text in claim.may_not_say))


def _of_template(claim: Claim, template: str) -> Forbidden:
    pattern = ""
    for literal, name, _, _ in string.Formatter().parse(template):
        pattern += re.escape(literal).replace("`", "`?")
        if name is not None:
            pattern += re.escape(claim.method) if name == "method" else r"\S+"
    return Forbidden(pattern, None, f"no verdict on claim {claim.id} supports it")


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
