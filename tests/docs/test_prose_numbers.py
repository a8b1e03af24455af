"""Numbers in the text of pages are those of the committed tables."""

import re

import pytest

from benchmarks import prose_numbers
from thinwire.base.errors import UserError
from thinwire.plugins import ROOT

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
    old = re.sub(r"(?<=`multi_step_delay` saves )\S+", "12.3", text)
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
