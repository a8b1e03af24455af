"""Times that were simulated without data: reading them, and which method is the fastest where."""

import re

import pandas as pd
import pytest

from thinwire.base.errors import UserError
from thinwire.report.rows.known_accuracy import Known, fastest, in_words, known, of_methods
from thinwire.simulation import simulated_file

STEPS = {"ssgd": 4.0, "ssgd_bf16_25mb": 3.0, "hsgd": 2.0, "daso": 1.5, "sparse_loco": 1.0}


def rows(rate=1.0, **steps):
    """A row for each method, with the seconds of its step."""
    steps = STEPS | steps
    baseline = min((label for label in steps if label.startswith("ssgd")), key=steps.get)
    made = pd.DataFrame(
        [(label, seconds, steps[baseline] / seconds) for label, seconds in steps.items()],
        columns=["method", "step_seconds", "speed_up"],
    )
    return made.assign(
        suite="times/net",
        dataset="data",
        model="net",
        workers=16,
        nodes=2,
        kind="simulated",
        cluster="ethernet",
        rate_gbit_per_second=rate,
        latency_seconds=1e-5,
        accelerator="gpu",
        compute_seconds=0.5,
        between_nodes_bytes=1e6,
        baseline=baseline,
    )


def write(results, suite, made):
    path = simulated_file.path_of_times(results, suite)
    path.parent.mkdir(parents=True, exist_ok=True)
    made.to_csv(path, index=False)
    return path


def test_the_times_of_all_suites_are_read_and_labels_stay_text(tmp_path):
    assert simulated_file.read_times(tmp_path) is None
    write(tmp_path, "times/b", rows())
    write(tmp_path, "a", rows().assign(model="1"))
    read = simulated_file.read_times(tmp_path)
    assert [*read.model.unique()] == ["1", "net"]
    assert len(read) == 2 * len(STEPS)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", r"cannot be read \(No columns to parse"),
        ("suite,dataset\na,b\n", "has no column model"),
        (rows()[:0].to_csv(index=False), "has no rows"),
        (rows().assign(workers="many").to_csv(index=False), "workers is no number in every row"),
    ],
)
def test_a_broken_file_is_refused_with_the_command_that_makes_it_again(tmp_path, text, sentence):
    write(tmp_path, "times/b", rows()).write_text(text)
    with pytest.raises(UserError, match=rf"b\.csv:? {sentence}.*`thinwire times times/b --results"):
        simulated_file.read_times(tmp_path)


def test_the_fastest_of_each_place_stands_beside_the_fastest_baseline():
    slow, fast = fastest(pd.concat([rows(), rows(rate=10.0, ssgd_bf16_25mb=1.0)])).itertuples()
    assert (slow.method, slow.baseline, slow.gain) == ("sparse_loco", "ssgd_bf16_25mb", 3.0)
    assert (slow.workers_per_node, slow.accuracy) == (8, Known.UNKNOWN)
    # The baseline takes as long as the fastest method.
    assert (fast.method, fast.gain, fast.accuracy) == ("ssgd_bf16_25mb", 1.0, Known.SAME)


def test_only_methods_of_whose_accuracy_this_is_known_take_part():
    (same,) = fastest(rows(), [Known.SAME]).itertuples()
    assert (same.method, same.gain) == ("hsgd", 1.5)
    (none,) = fastest(rows(hsgd=5.0), [Known.SAME]).itertuples()
    assert (none.method, none.gain) == ("ssgd_bf16_25mb", 1.0)


def test_a_place_without_a_baseline_has_no_gain():
    assert fastest(rows().assign(baseline=None)).empty


def test_what_the_study_knows_of_a_method():
    assert known("ps_sgd") == known("ssgd_bf16_25mb") == Known.SAME
    assert known("top_k") == known("daso") == Known.CHANGED
    assert known("sparse_loco") == Known.UNKNOWN


def test_differences_in_words_have_a_true_minus_and_zero_has_no_sign():
    words = " ".join(map(in_words, of_methods()))
    assert re.search(r"\N{MINUS SIGN}\d", words)
    assert not re.search(r"-\d|[-+\N{MINUS SIGN}]0\.0\b", words)
