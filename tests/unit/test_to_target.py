"""to_target.csv: what targets cost, with misses, and the epochs beside those of a reference."""

import math

import pandas as pd
import pytest

from tests.frames import CELL
from thinwire.base.learning import CLASSIFICATION
from thinwire.report.rows.quantities import SHARES, TARGET_OF_BASELINE
from thinwire.report.rows.to_target import Convergence, convergences, steps_to_target, to_target

INF = math.inf


def run(method, repetition, *accuracies, status="done", seconds=None, **more):
    """A row of the runs, and its curve: an evaluation an epoch, of 10 steps and 100 bytes each."""
    trained = {"repetition": repetition, "status": status, "epochs": 4, "batch": 64, "batch_per": "run"}
    data = {"classes": 10, "evaluated_images": 1000, "score": accuracies[-1] if accuracies else None}
    about = {**CELL, "method": method, **trained, **data, **more}
    curve = [
        about
        | {"epoch": i + 1.0, "step": 10 * (i + 1), "score": accuracy}
        | {"payload_push_bytes": 60.0 * (i + 1), "payload_pull_bytes": 40.0 * (i + 1)}
        | {"preparation_payload_bytes": 1000.0 * (method == "prepared")}
        | ({} if seconds is None else {"train_seconds": seconds * (i + 1)})
        for i, accuracy in enumerate(accuracies)
    ]
    return about, curve


def table_of(*made):
    runs = pd.DataFrame([about for about, _ in made])
    return to_target(runs, pd.DataFrame([row for _, curve in made for row in curve]), "ssgd", CLASSIFICATION)


def rows_of(table, method, **where):
    here = table[table.method == method]
    for column, value in where.items():
        here = here[here[column] == value]
    return here.reset_index(drop=True)


BASELINE = [run("ssgd", 0, 90, 100), run("ssgd", 1, 99, 100), run("ssgd", 2, 98, 100)]


def test_the_targets_are_shares_of_the_baselines_mean_and_the_last_is_that_of_the_times():
    table = table_of(*BASELINE)
    assert list(table.target_score) == pytest.approx([95, 98, 99])
    assert SHARES[-1] == TARGET_OF_BASELINE
    assert list(table.epochs_median) == [1, 1, 2]
    assert list(table.steps_median) == [10, 10, 20]
    assert list(table.payload_bytes_median) == [100, 100, 200]
    assert list(table.runs) == list(table.reached) == [3, 3, 3]
    # The bytes have those of the preparation.
    table = table_of(*BASELINE, run("prepared", 0, 100))
    assert list(rows_of(table, "prepared").payload_bytes_median) == [1100] * 3


def test_a_miss_is_infinite_and_its_epochs_are_spent():
    """By hand, for 95 %: epochs 2, 4 and a miss after 4, and a run that failed before it was evaluated."""
    made = [run("thin", 0, 1, 95), run("thin", 1, 1, 1, 1, 95), run("thin", 2, 1, 1, 1, 1)]
    table = table_of(*BASELINE, *made, run("thin", 3, status="failed"))
    first, _, last = rows_of(table, "thin").itertuples()
    assert (first.runs, first.reached) == (4, 2)
    assert (first.epochs_median, first.steps_median, first.payload_bytes_median) == (INF, INF, INF)
    assert first.expected_epochs == (2 + 4 + 4 + 0) / 2
    assert (last.reached, last.expected_epochs) == (0, INF)
    table = table_of(*BASELINE, *made)
    assert rows_of(table, "thin").epochs_median[0] == 4, "the median of 2, 4 and infinity"
    # Seconds are there only if runs have times, and infinite for a miss.
    timed = [
        run(method, seed, *accuracies, seconds=seconds)
        for method, accuracies, seconds in (("ssgd", (90, 100), 3.0), ("thin", (1, 1), 1.0))
        for seed in range(2)
    ]
    table = table_of(*timed)
    assert list(table.train_seconds_median) == [6, 6, 6, INF, INF, INF]
    assert table_of(*BASELINE, run("thin", 0, 1, 1)).train_seconds_median.isna().all()


def test_there_is_no_target_without_a_baseline_and_no_row_for_skipped_runs():
    diverged = run("ssgd", 0, 90, 5, status="diverged", workers=8)
    table = table_of(*BASELINE, run("skipped", 0, status="skipped"), diverged, run("thin", 0, 90, workers=8))
    assert set(table.method) == {"ssgd"}
    assert set(table.workers) == {4}
    # One repetition sets no target.
    assert table_of(run("ssgd", 0, 90), run("thin", 0, 90)).empty


def test_the_steps_of_a_place_are_those_to_the_last_target():
    """Those of other nodes count where there are no own ones; other numbers of workers have none."""
    there = [run("ssgd", 0, 90, workers=8, nodes=4), run("ssgd", 1, 90, workers=8, nodes=4)]
    look_up = steps_to_target(table_of(*BASELINE, run("thin", 0, 1, 99), run("thin", 1, 5, 5), *there))
    assert look_up(("digits", "cnn", 4, 1), "ssgd") == pytest.approx((99, 20))
    assert look_up(("digits", "cnn", 4, 1), "thin") == pytest.approx((99, INF))
    assert look_up(("digits", "cnn", 4, 2), "ssgd") == pytest.approx((99, 20))
    assert look_up(("digits", "cnn", 8, 2), "ssgd") == pytest.approx((89.1, 10))
    assert look_up(("digits", "cnn", 4, 1), "none") == pytest.approx((99, math.nan), nan_ok=True)
    assert all(map(math.isnan, look_up(("digits", "cnn", 16, 1), "ssgd")))


def test_there_is_no_target_that_guessing_reaches():
    """Of ten classes and 1000 images: 10 % and three standard deviations of 0.95 are 12.8 %."""
    guess = [run(method, seed, 10.0, 12.9) for method in ("ssgd", "thin") for seed in range(2)]
    assert table_of(*guess).empty
    learns = [run(method, seed, 10.0, 13.6) for method in ("ssgd", "thin") for seed in range(2)]
    assert list(table_of(*learns).reached) == [2] * 6


def many(method, *epochs, **more):
    """Runs that reach every target after these numbers of epochs; each number occurs twice."""
    return [run(method, r, *([50] * (e - 1)), *([100] * (9 - e)), **more) for r, e in enumerate(2 * epochs)]


def test_a_method_that_needs_fewer_epochs_than_the_reference_is_suspicious():
    table = table_of(
        *many("ssgd", 5, 5, 6, 5, 4, 5),
        *many("soon", 2, 3, 3, 2, 2, 3),
        *many("alike", 5, 6, 5, 5, 4, 5),
        *many("slow", 8, 7, 8, 8, 7, 8),
        *many("few", 1, 1)[:3],
    )
    verdicts = table.groupby("method").convergence.unique().str[0]
    expected = {"ssgd": "reference", "soon": "suspicious", "alike": "plausible", "slow": "late"}
    assert dict(verdicts) == expected | {"few": "inconclusive"}
    assert set(table.reference_workers) == {4}


def test_the_reference_is_one_worker_with_the_same_batch_of_the_run_if_there_is_one():
    four, one = many("ssgd", 2, 3, 3, 2, 2, 3), many("ssgd", 5, 5, 6, 5, 4, 5, workers=1)
    table = table_of(*four, *one, *many("thin", 5, 5, 6, 5, 4, 5))
    assert set(table.reference_workers) == {1}
    found = {(row.method, row.workers): row.convergence for row in table.itertuples()}
    assert found == {("ssgd", 4): "suspicious", ("ssgd", 1): "reference", ("thin", 4): "plausible"}
    other = many("ssgd", 5, 5, 6, 5, 4, 5, workers=1, batch=32)
    assert set(rows_of(table_of(*four, *other), "ssgd", workers=4).convergence) == {"reference"}
    per_worker = {"batch": 64, "batch_per": "worker"}
    table = table_of(
        *many("ssgd", 5, 5, 6, 5, 4, 5, workers=1, **per_worker | {"batch": 256}),
        *many("ssgd", 2, 3, 3, 2, 2, 3, **per_worker),
    )
    assert set(rows_of(table, "ssgd", workers=4).reference_workers) == {1}, "4 workers with 64 images each"


REFERENCE = [5, 6, 5, 4, 5, 6]


@pytest.mark.parametrize(
    ("epochs", "reference", "expected"),
    [
        # Six pairs that all agree have p = 2 / 2^6 = 0.03; with a tie, it is 2 / 2^5 = 0.06.
        ([4, 5, 4, 3, 4, 5], REFERENCE, Convergence.SUSPICIOUS),
        ([8, 9, 7, INF, 8, 9], REFERENCE, Convergence.LATE),
        ([8, 9, 7, 4, 8, 9], REFERENCE, Convergence.PLAUSIBLE),
        (REFERENCE, REFERENCE, Convergence.PLAUSIBLE),
        # One miss is not yet late.
        ([5, 6, 5, INF, 5, 6], REFERENCE, Convergence.PLAUSIBLE),
        # Where both miss, neither is earlier.
        ([4, INF, 4, 3, 4, 5], [5, INF, 5, 4, 5, 6], Convergence.PLAUSIBLE),
        # What the reference misses and the method reaches counts as reached after all 12 epochs.
        ([4, 11, 4, 3, 4, 5], [5, INF, 5, 4, 5, 6], Convergence.SUSPICIOUS),
        ([4, 12, 4, 3, 4, 5], [5, INF, 5, 4, 5, 6], Convergence.PLAUSIBLE),
        ([3, 4, 3, 3, 3], REFERENCE, Convergence.INCONCLUSIVE),
    ],
)
def test_epochs_beside_those_of_the_reference(epochs, reference, expected):
    found = convergences({"thin": pd.Series(epochs)}, pd.Series(reference), 12)
    assert found == {"thin": expected}


def test_the_epochs_of_several_methods_are_tested_together():
    """Two tests of six pairs have twice the p of one, 0.06: even six pairs that agree say nothing."""
    soon = pd.Series(REFERENCE) - 1
    found = convergences({"a": soon, "b": soon}, pd.Series(REFERENCE), 12)
    assert set(found.values()) == {Convergence.INCONCLUSIVE}
