"""Tables of results in the documentation have the numbers of results/reference/."""

import re

from benchmarks.committed_tables import summary as committed
from tests.docs import pages
from thinwire.plugins import ROOT

SAVED = {
    "payload saved, %": "total_reduction_percent",
    "busiest link saved, %": "busiest_link_reduction_percent",
    "between nodes saved, %": "between_nodes_reduction_percent",
}
VERDICTS = {"≠": "different", "=": "same", "?": "cannot_be_told"}
ACCURACY = re.compile(
    r"(?P<mean>\S+) ± (?P<sd>\S+)(?: \((?P<done>\d+) of (?P<all>\d+)\))?(?: (?P<sign>[≠=?]))?"
)


def require_equal(shown, value):
    """A number as it is shown is the value, rounded; the reference itself has six digits."""
    digits = len(shown.partition(".")[2])
    assert abs(float(shown) - value) <= 0.501 * 10**-digits + 1e-5 * abs(value), (shown, value)


def test_the_table_of_the_readme():
    (table,) = pages.tables((ROOT / "README.md").read_text())
    frame = committed("laptop")
    frame = frame[(frame.workers == 16) & (frame.nodes == 4)].set_index(["model", "method"])
    heading, *rows = table
    models = [name.removesuffix(", %").strip("`") for name in heading[1:3]]
    assert heading[3:] == list(SAVED)
    assert {(model, row[0].strip("`")) for row in rows for model in models} == set(frame.index)
    for row in rows:
        for model, text in zip(models, row[1:3]):
            expected, shown = frame.loc[model, row[0].strip("`")], ACCURACY.fullmatch(text)
            require_equal(shown["mean"], expected.accuracy_mean_percent)
            require_equal(shown["sd"], expected.accuracy_sd_percent)
            assert VERDICTS.get(shown["sign"]) == (expected.verdict if row[0] != "`ssgd`" else None)
            assert expected.done == int(shown["done"] or 10)
        for shown, column in zip(row[3:], SAVED.values()):
            require_equal(shown, frame.loc[(models[0], row[0].strip("`")), column])
