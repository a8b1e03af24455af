"""The README stays short."""

from tests.docs import pages
from thinwire.plugins import ROOT

README = (ROOT / "README.md").read_text()


def test_it_has_at_most_1200_words():
    assert len(README.split()) <= 1200


def test_its_tables_have_at_most_6_columns_and_12_rows():
    tables = pages.tables(README)
    assert tables
    for heading, *rows in tables:
        assert len(heading) <= 6
        assert len(rows) <= 12


def test_its_picture_is_committed():
    assert "](docs/demo_accuracy_against_bytes.png)" in README
    assert (ROOT / "docs/demo_accuracy_against_bytes.png").is_file()
