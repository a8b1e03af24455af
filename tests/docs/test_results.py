"""Tables of results in the documentation have the numbers of results/reference/."""

import pytest

from benchmarks import update_docs
from benchmarks.update_docs import committed
from tests.docs import pages
from thinwire.plugins import ROOT

README_COLUMNS = {
    "payload, MB": ("total_bytes", 1e-6),
    "payload saved, %": ("total_reduction_percent", 1),
    "busiest link saved, %": ("busiest_link_reduction_percent", 1),
    "between nodes saved, %": ("between_nodes_reduction_percent", 1),
}


def require_equal(shown, value):
    """A number as it is shown is the value, rounded; the reference itself has six digits."""
    digits = len(shown.partition(".")[2])
    assert abs(float(shown) - value) <= 0.501 * 10**-digits + 1e-5 * abs(value), (shown, value)


def test_the_table_of_the_readme():
    (table,) = pages.tables((ROOT / "README.md").read_text())
    frame = committed("demo")
    frame = frame[frame.workers == 8].set_index("method")
    heading, *rows = table
    assert heading == ["method", "test accuracy, %", *README_COLUMNS]
    assert [row[0].strip("`") for row in rows] == list(frame.index)
    for row in rows:
        expected = frame.loc[row[0].strip("`")]
        mean, sd = row[1].split(" ± ")
        require_equal(mean, expected.accuracy_mean_percent)
        require_equal(sd, expected.accuracy_sd_percent)
        for shown, (column, scale) in zip(row[2:], README_COLUMNS.values()):
            require_equal(shown, expected[column] * scale)
        assert expected.done == 3


@pytest.mark.parametrize("suite", ["demo", "claims/mp2_digits"])
def test_a_page_shows_the_summary_and_the_traffic(suite):
    """Another test holds them equal to the reference."""
    shown = [text for path in pages.pages() for text in [path.read_text()]]
    for kind in ("summary", "traffic"):
        line = f"<!-- {kind} of the committed {suite} -->"
        assert sum(line in text and "<!-- end -->" in text for text in shown) == 1


def test_a_block_of_the_demo_fits_on_a_screen():
    for block in update_docs.tables("demo", "summary").split("\n\n**"):
        rows = [line for line in block.splitlines() if line.startswith("|")]
        assert max(map(len, rows)) <= 120
        assert len(block.splitlines()) <= 30
