"""Tables of results in the documentation have the numbers of results/reference/."""

import re

import pandas as pd
import pytest

from tests.docs import pages
from thinwire.config import suite
from thinwire.plugins import ROOT
from thinwire.report import tables

README_COLUMNS = {
    "payload, MB": ("total_bytes", 1e-6),
    "payload saved, %": ("total_reduction_percent", 1),
    "busiest link saved, %": ("busiest_link_reduction_percent", 1),
    "between nodes saved, %": ("between_nodes_reduction_percent", 1),
}


def reference(name):
    frame = pd.read_csv(ROOT / "results/reference" / f"{name}.csv")
    texts = ["reason", "no_time_because"]
    return frame.assign(**frame[texts].astype("string").fillna("").to_dict("series"))


def require_equal(shown, value):
    """A number as it is shown is the value, rounded; the reference itself has six digits."""
    digits = len(shown.partition(".")[2])
    assert abs(float(shown) - value) <= 0.501 * 10**-digits + 1e-5 * abs(value), (shown, value)


def test_the_table_of_the_readme():
    (table,) = pages.tables((ROOT / "README.md").read_text())
    frame = reference("demo")
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


@pytest.mark.parametrize(
    ("page", "name", "of"),
    [("docs/demo.md", "demo", "demo"), ("docs/methods.md", "mp2_digits", "claims/mp2_digits")],
)
def test_a_whole_table(page, name, of):
    """Every cell is as the report writes it; numbers may differ by the rounding of the reference."""
    shown = pages.table_of((ROOT / page).read_text(), f"results/reference/{name}.csv")
    about = tables.About.of(suite.load(of))
    (expected,) = pages.tables(tables.markdown(reference(name), about))
    assert shown[0] == expected[0]
    assert len(shown) == len(expected)
    for mine, theirs in zip(shown[1:], expected[1:]):
        assert len(mine) == len(theirs)
        for a, b in zip(mine, theirs):
            if re.fullmatch(r"-?\d+\.\d+", a):
                assert abs(float(a) - float(b)) <= 1.001 * 10 ** -len(a.partition(".")[2])
            else:
                assert a == b
