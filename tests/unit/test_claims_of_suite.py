"""The rows of claims: which runs are compared, what may be said about them, and that no suite is left out."""

import math
from argparse import Namespace

import pandas as pd
import pytest

from tests import simulated
from tests.claims import ACCURACY, STEP, TO_TARGET, claim, points, run, runs
from thinwire import plugins
from thinwire.base import digests
from thinwire.cli import results as command
from thinwire.config import claims, expand
from thinwire.config.entry_schema import Entry
from thinwire.config.suite import load, suite_names
from thinwire.pipeline import inputs
from thinwire.plugins import ROOT
from thinwire.report import claims_table as table
from thinwire.report.claim_rows import is_reconstructed, metric_values, rows_of, rows_without_runs

NO_CURVES = pd.DataFrame()


def suite(*claims, **changes):
    """A suite on GPUs with the methods thin, ssgd and ssgd_bf16; thin is MP2's module."""
    made = load("claims/mp2")
    methods = {"thin": Entry(use="mp2")} | made.methods
    return made.model_copy(update={"claim": list(claims), "methods": methods, "repetitions": 6} | changes)


def row_of(of, *rows, curves=NO_CURVES, times=None, **changes):
    (row,) = rows_of("claims/invented", suite(of, **changes), runs(*rows), curves, times)
    return row


def test_the_best_of_several_is_compared_with():
    of = claim(against=["ssgd", "ssgd_bf16"])
    row = row_of(of, run("ssgd", 0, 100), run("ssgd_bf16", 0, 50), run("thin", 0, 60))
    assert (row["against"], row["verdict"], row["estimate"]) == ("ssgd_bf16", "contradicted", -20)
    highest = claim(against=["ssgd", "ssgd_bf16"], **ACCURACY["more"])
    scores = {"ssgd": 92, "ssgd_bf16": 91, "thin": 93}
    row = row_of(highest, *(run(name, 0, accuracy=score) for name, score in scores.items()))
    assert (row["against"], row["estimate"]) == ("ssgd", 1)


def test_a_claim_about_the_best_of_several_is_held_only_against_each():
    """The runs that test it have chosen the best one, too. Here the other is lower, with a wide spread."""
    rows = [run("ssgd", n, accuracy=92 + n / 100) for n in range(6)]
    rows += [run("thin", n, accuracy=93 + n % 2 / 10) for n in range(6)]
    wide = [run("ssgd_bf16", n, accuracy=91 + 4 * (-1) ** n) for n in range(6)]
    alone, both = claim(**ACCURACY["more"]), claim(against=["ssgd", "ssgd_bf16"], **ACCURACY["more"])
    assert row_of(alone, *rows)["verdict"] == "held"
    row = row_of(both, *rows, *wide)
    assert (row["against"], row["verdict"]) == ("ssgd", "inconclusive")
    assert row["reason"].startswith("inconclusive against ssgd_bf16: 6 pairs would find")


def test_runs_are_paired_by_repetition_within_a_place():
    first = [run("ssgd", 0, 100), run("thin", 1, 30), run("ssgd", 1, 60), run("thin", 0, 50)]
    other = [run("ssgd", 0, 10, workers=4), run("thin", 0, 20, workers=4)]
    rows = list(rows_of("s", suite(claim()), runs(*first, *other), NO_CURVES, None))
    assert [(row["workers"], row["n"], row["estimate"]) for row in rows] == [(8, 2, 50), (4, 1, -100)]
    # Only the models of the claim count.
    rows = [run(method, 0, model=model) for model in ("cnn", "vgg") for method in ("ssgd", "thin")]
    assert row_of(claim(models=["vgg"]), *rows)["model"] == "vgg"


@pytest.mark.parametrize(
    ("theirs", "ours", "verdict", "said"),
    [
        (100.0, 102.0, "held", ""),
        (100.0, 97.0, "not testable here", ": push differs by 3.0 % and not at most by 2 %."),
        (0, 3, "not testable here", ": push is 3 bytes, and ssgd has none."),
    ],
)
def test_a_claim_at_equal_bytes_says_nothing_where_they_differ(theirs, ours, verdict, said):
    of = claim(**ACCURACY["same"], **points(0.3), at_equal={"metric": "push", "within_percent": 2.0})
    row = row_of(of, *(run(*each) for n in range(6) for each in (("ssgd", n, theirs), ("thin", n, ours))))
    assert row["verdict"] == verdict
    assert row["says"].endswith(said)


def test_a_run_without_a_score_has_none():
    """It is no text of which each character takes 0 bits."""
    values = metric_values("accuracy", runs(run("thin", 0, accuracy=math.nan)), pd.DataFrame(), "ssgd")
    assert values.isna().all()


def test_a_preparation_is_counted_where_the_metric_says_so():
    prepared = {"preparation_payload_push_bytes": 300.0, "preparation_payload_pull_bytes": 50.0}
    rows = run("ssgd", 0), run("thin", 0, 50.0, **prepared)
    assert row_of(claim(metric="payload"), *rows)["estimate"] == 25
    assert row_of(claim(metric="payload_with_preparation"), *rows)["estimate"] == -150


def test_what_was_skipped_is_not_testable_and_what_failed_inconclusive():
    skipped = run("thin", 0, status="skipped", reason="one node", push=math.nan)
    row = row_of(claim(), run("ssgd", 0), skipped)
    assert (row["verdict"], row["reason"]) == ("not testable here", "thin was skipped: one node")
    row = row_of(claim(), run("ssgd", 0), run("thin", 0, status="failed"))
    assert (row["verdict"], row["reason"]) == ("inconclusive", "no pair of runs is done")


def test_fewer_pairs_than_were_planned_decide_nothing_about_accuracy():
    of = claim(**ACCURACY["same"], **points(0.3))
    rows = [run(method, n) for method in ("ssgd", "thin") for n in range(6)]
    assert row_of(of, *rows)["verdict"] == "held"
    lost = [*rows[:-1], run("thin", 5, status="diverged")]
    row = row_of(of, *lost)
    assert row["verdict"] == "inconclusive"
    assert row["reason"] == "5 of the suite's 6 pairs are complete; thin: diverged"
    assert row_of(of, *rows, repetitions=7)["reason"] == "6 of the suite's 7 pairs are complete"
    assert row_of(claim(), *lost[:-1])["verdict"] == "contradicted"


@pytest.mark.parametrize(
    ("bytes_of_variants", "verdict", "reason"),
    [
        ((40, 50), "held", "counted, and equal in every repetition"),
        ((40, 200), "depends on the reconstruction", "held for thin, a; contradicted for b"),
        ((40, None), "inconclusive", "held for thin, a; inconclusive for b"),
    ],
)
def test_a_verdict_holds_for_all_variants_of_a_reconstruction(bytes_of_variants, verdict, reason):
    methods = suite(claim()).methods | {"a": Entry(use="mp2"), "b": Entry(use="mp2")}
    rows = [
        run(label, n, size)
        for n in range(2)
        for label, size in zip(("ssgd", "thin", "a", "b"), (100, 30, *bytes_of_variants))
        if size is not None
    ]
    row = row_of(claim(variants=["a", "b"]), *rows, methods=methods)
    assert (row["verdict"], row["reason"], row["estimate"]) == (verdict, reason, 70)
    if verdict.startswith("depends"):
        assert "depends on the reconstruction" in row["says"]
        assert "`thin` pushes" not in row["says"]


def test_a_number_on_cpus_must_follow_from_shapes():
    of = claim(scope="number", margin={"value": 10.0, "unit": "percent"})
    rows = [run("ssgd", 0), run("ssgd", 1), run("thin", 0, 50)]
    assert row_of(of, *rows, run("thin", 1, 50), device="cpu")["verdict"] == "held"
    assert row_of(of, *rows, run("thin", 1, 51), device="cpu")["verdict"] == "inconclusive"
    assert row_of(of, *rows, run("thin", 1, 51))["verdict"] == "held"


@pytest.mark.parametrize(
    ("direction", "ours", "verdict"),
    [("more", 92.4, "inconclusive"), ("more", 92.8, "held"), ("not_less", 91.4, "inconclusive"),
     ("not_less", 90.9, "contradicted"), ("not_less", 92.3, "inconclusive"), ("not_less", 92.5, "held"),
     ("same", 92.1, "inconclusive"), ("same", 93.1, "contradicted")],
)  # fmt: skip
def test_no_verdict_rests_on_less_than_what_tuning_leaves_to_chance(direction, ours, verdict):
    """The noise floor is 0.7 points, so with a margin of 0.3 nothing can be shown to be the same."""
    of = claim(**ACCURACY[direction], **({} if direction == "more" else points(0.3)))
    again = {"ssgd_again": Entry(use="ssgd", tuned_again=True)}
    methods = load("claims/mp2").methods | {"thin": Entry(use="mp2")} | again
    scores = {"ssgd": 92.0, "ssgd_again": 92.7, "thin": ours}
    rows = [run(name, n, accuracy=score + n / 100) for name, score in scores.items() for n in range(6)]
    row = row_of(of, *rows, methods=methods)
    assert row["verdict"] == verdict
    if (direction, verdict) == ("more", "inconclusive"):
        assert "6 pairs would find a difference of 0.7" in row["reason"]


def test_what_may_be_said():
    held = row_of(claim(), run("ssgd", 0), run("thin", 0, 50))
    assert held["says"] == "digits, cnn, 8 workers on 2 nodes: `thin` pushes 50.00 % less than `ssgd`."
    said = row_of(claim(), run("ssgd", 0), run("thin", 0, 150))["says"]
    assert '"It sends less." is contradicted. The estimate of `thin` against `ssgd` is -50.00 %' in said
    (unknown,) = rows_without_runs("s", suite(claim()))
    assert (unknown["verdict"], unknown["reason"][:11], unknown["n"]) == ("inconclusive", "no runs yet", 0)
    assert "It is not decided yet" in unknown["says"]

    post_hoc = row_of(claim(post_hoc=True), run("ssgd", 0), run("thin", 0, 50))
    assert post_hoc["says"].endswith("The claim was set when these runs were known.")
    assert table.short(pd.DataFrame([post_hoc])).verdict.item() == "held (post hoc)"
    methods = {"ssgd": Entry(use="ssgd"), "thin": Entry(use="hylo")}
    rebuilt = row_of(claim(), run("ssgd", 0), run("thin", 0, 50), methods=methods)
    assert rebuilt["reconstructed"]
    assert rebuilt["says"].endswith("`thin` is reconstructed.")
    assert all(map(is_reconstructed, ("hsgd", "hylo", "wnn", "multi_step_delay")))
    assert not any(map(is_reconstructed, ("ssgd", "mp2", "daso", "dgc")))


def timed(method, repetition, seconds, **more):
    return run(method, repetition, kind="measured", train_seconds=seconds, **more)


def evaluation(method, repetition, step, score, seconds):
    place = {"dataset": "digits", "model": "cnn", "workers": 8, "nodes": 2, "kind": "measured"}
    about = {"method": method, "repetition": repetition, "step": step}
    return place | about | {"score": score, "train_seconds": seconds}


def test_seconds_of_a_step_come_from_runs_with_times():
    rows = [timed("ssgd", n, 20 + n) for n in range(6)] + [timed("thin", n, 10 + n / 2) for n in range(6)]
    row = row_of(claim(**STEP), *rows)
    assert (row["verdict"], row["kind"]) == ("held", "measured")
    assert row["estimate"] == pytest.approx(50)
    untimed = row_of(claim(**STEP), run("ssgd", 0), run("thin", 0))
    assert untimed["says"] == "Not testable here: no run has measured or emulated times."


def test_a_simulation_says_its_own_numbers_and_decides_nothing():
    times = simulated.rows(simulated.row("ssgd", 10.0), simulated.row("thin", 5.0))
    row = row_of(claim(**STEP), run("ssgd", 0), times=times)
    assert (row["kind"], row["verdict"], row["estimate"]) == ("simulated", "not testable here", 50)
    said = "Our simulation gives 50.0 % fewer seconds a step for `thin` than for `ssgd`"
    assert row["says"].startswith(said)
    assert "ethernet_1g" in row["says"]


def test_seconds_to_the_target_end_at_the_first_evaluation_that_reaches_it():
    rows = [timed(method, n, 40) for method in ("ssgd", "thin") for n in range(6)]

    def row_with(*of_thin):
        curves = pd.DataFrame(
            evaluation(method, n, i, accuracy, 10.0 * (i + 1) + n)
            for method, several in {"ssgd": (10, 20, 30, 90), "thin": of_thin}.items()
            for n in range(6)
            for i, accuracy in enumerate(several)
        )
        return row_of(claim(**TO_TARGET), *rows, curves=curves)

    # The target is 99 % of 90; thin is there at the second of its evaluations, ssgd at the fourth.
    row = row_with(10, 89.2, 80, 91)
    assert row["verdict"] == "held"
    assert 40 < row["low"] < row["estimate"] < row["high"] < 50
    missed = row_with(10, 20, 30, 40)
    assert (missed["verdict"], missed["reason"]) == ("inconclusive", "6 runs miss the target")


def test_runs_at_chance_level_decide_nothing():
    """Guessing has 10 %. A target that follows from it is reached at once."""
    rows = [timed(method, n, 40, accuracy=10) for method in ("ssgd", "thin") for n in range(6)]
    curves = pd.DataFrame(
        evaluation(method, n, 1, 10, seconds + n)
        for method, seconds in (("ssgd", 40.0), ("thin", 10.0))
        for n in range(6)
    )
    for of in (claim(**ACCURACY["same"], **points(0.3)), claim(**TO_TARGET)):
        row = row_of(of, *rows, curves=curves)
        assert (row["verdict"], row["reason"]) == ("inconclusive", "the runs of ssgd are at chance level")


@pytest.fixture
def two_suites(monkeypatch):
    """Only these are there, because reading all takes seconds."""
    monkeypatch.setattr(table.suites, "suite_names", lambda: ["claims/hylo", "claims/mp2_digits"])


@pytest.fixture
def results(tmp_path, two_suites):
    """Collected runs of MP2's small suite."""
    about = {"suite": "claims/mp2_digits", "model": "lenet", "nodes": 1, "classes": 10}
    most = {"wire_received_bytes": 0, "wire_sent_max_bytes": 0, "wire_received_max_bytes": 0}
    methods = {"ssgd": 100, "ssgd_bf16": 2, "bsp": 100, "mp2": 12}
    rows = [
        run(name, n, push, no_time_because=None, evaluated_images=539, **about, **most)
        for name, push in methods.items()
        for n in range(3)
    ]
    runs(*rows).to_csv(tmp_path / "summary.csv", index=False)
    digests.write_json(tmp_path / "collected.json", {"files": digests.of_files(tmp_path, ["summary.csv"])})
    return tmp_path


def rows_of_suite(made, name="claims/mp2_digits"):
    return made[made.suite == name].set_index("id")


def test_a_suite_with_runs_has_verdicts_and_the_others_have_none_yet(results):
    made, left_out = table.table(results)
    assert left_out == []
    own = rows_of_suite(made)
    suite = load("claims/mp2_digits")
    assert list(own.index) == [claim.id for claim in suite.claim]
    assert own.verdict["002-a.5"] == "held"
    assert own.verdict["002-a.4"] == "contradicted"
    assert own.verdict["002-c"] == "inconclusive"
    assert f"3 of the suite's {suite.repetitions} pairs are complete" in own.reason["002-c"]
    cost = "`thinwire cells claims/hylo --cost a100` predicts their GPU hours"
    assert set(rows_of_suite(made, "claims/hylo").reason) == {f"no runs yet; {cost}"}


def test_without_any_results_every_claim_is_there(tmp_path):
    made, _ = table.table(tmp_path)
    tested = [claim.id for name in suite_names() for claim in load(name).claim]
    assert sorted(made.id) == sorted([*tested, *(claim.id for claim in claims.read_untested())])
    assert set(made.verdict) == {"inconclusive", "not testable here"}
    assert made.says.str.len().min() > 20


@pytest.mark.usefixtures("two_suites")
def test_an_untested_claim_quotes_what_a_benchmark_printed(tmp_path, monkeypatch):
    made, _ = table.table(tmp_path)
    (said,) = made[made.id == "003-c"].says
    newest = max((ROOT / "benchmarks" / "records").glob("*/io.txt"))
    for line in newest.read_text().splitlines():
        assert (line in said) == (" seeks, " in line)
    assert plugins.show(newest) in inputs.files_with_claims()
    # Without the benchmarks nothing is quoted.
    monkeypatch.setattr(claims, "ROOT", tmp_path)
    made, _ = table.table(tmp_path)
    (said,) = made[made.id == "003-c"].says
    assert said.endswith("seconds in small.")
    assert not [path for path in inputs.files_with_claims() if path.startswith("benchmarks")]


def test_the_command_writes_the_same_bytes_again(results, capsys):
    written = []
    for _ in range(2):
        assert command.claims_main(Namespace(results=results)) == 0
        written.append([(results / name).read_bytes() for name in ("claims.csv", "claims.md")])
    assert written[0] == written[1]
    assert "| 002-a.5 | claims/mp2_digits" in capsys.readouterr().out
    read = pd.read_csv(results / "claims.csv")
    assert list(read) == list(table.COLUMNS)
    assert set(read.verdict) <= {"held", "contradicted", "inconclusive", "not testable here"}


def test_a_suite_that_cannot_be_read_is_left_out_with_a_sentence(results, monkeypatch):
    good = load("claims/hylo")
    wrong = good.model_copy(update={"claim": [good.claim[0].model_copy(update={"method": "hyllo"})]})
    monkeypatch.setattr(expand, "load", lambda name: wrong if name == "claims/hylo" else load(name))
    made, (sentence,) = table.table(results)
    assert sentence.startswith("left out of claims.csv: config/claims/hylo.yaml: claim.0.method: the suite")
    assert "claims/hylo" not in set(made.suite)
    assert "held" in set(made.verdict)
