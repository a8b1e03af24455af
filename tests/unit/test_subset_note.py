"""A table says which part of its suite it shows."""

import pandas as pd

from tests import project
from thinwire.config.grid_subset import of_words
from thinwire.report.subset_note import subset_note

DEMO = project.demo()


def note(*words):
    rows = [
        (c.dataset, c.model.label, c.method.label, c.workers, c.nodes, c.repetition)
        for c in of_words(words).keep(DEMO)
    ]
    columns = ["dataset", "model", "method", "workers", "nodes", "repetition"]
    return subset_note(pd.DataFrame(rows, columns=columns), DEMO, "ssgd")


def test_a_whole_suite_has_no_note():
    assert note() is None


def test_a_subset_is_described_by_what_is_left():
    assert note("methods=ssgd,dgc", "repetitions=2") == (
        "A subset: 8 of the suite's 60 runs. "
        "Methods: ssgd, dgc (2 of 10). Repetitions: seed0, seed1 (2 of 3)."
    )
    assert note("workers=8") == "A subset: 30 of the suite's 60 runs. Workers: w8n2 (1 of 2)."


def test_a_missing_baseline_is_named():
    assert note("methods=dgc").endswith(
        "The baseline ssgd is not among them, so there is nothing to compare with."
    )
