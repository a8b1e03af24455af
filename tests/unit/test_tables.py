"""Tables show what the runs have: means, spreads, reductions, and failures."""

import math

import pandas as pd
import pytest

from tests.project import untuned
from tests.summary import ABOUT, prepared, run, table_of
from thinwire import plugins
from thinwire.base import digests
from thinwire.base.learning import CLASSIFICATION
from thinwire.config import tuned
from thinwire.config.entries import baselines
from thinwire.config.entry_schema import Entry
from thinwire.config.suite import load
from thinwire.optim.tunable import tunable
from thinwire.report.rows import collect
from thinwire.report.rows.quantities import runs_to_break_even, summarise
from thinwire.report.tables import numbers
from thinwire.report.tables.about import About
from thinwire.report.tables.numbers import Mark
from thinwire.report.tables.write import summary, traffic


def rows_of(*runs):
    return table_of(runs).set_index("method")


def markdown(*runs, about=ABOUT):
    return summary(table_of(runs, about.baselines), about)["md"]


def ledgers(*runs, about=ABOUT):
    return traffic(table_of(runs, about.baselines), about)


def test_mean_and_sample_standard_deviation_over_the_runs_that_are_done():
    table = rows_of(*(run("ssgd", i, accuracy=a) for i, a in enumerate((90.0, 92.0, 97.0))))
    assert table.score_mean["ssgd"] == 93
    assert table.score_sd["ssgd"] == pytest.approx(math.sqrt((9 + 1 + 16) / 2))
    assert table.done["ssgd"] == 3


def test_reductions_are_of_mean_bytes_against_the_baseline_of_the_same_cell():
    thin = {"bytes_": (20, 100, 40, 0)}
    table = rows_of(run("ssgd", 0), run("ssgd", 1, bytes_=(300, 100, 250, 50)), run("thin", 0, **thin))
    # 20 of 200, all of 100, and 120 of 300.
    expected = {"push": 90, "pull": 0, "total": 60, "wire": 80, "between_nodes": 100}
    assert {name: table[f"{name}_reduction_percent"]["thin"] for name in expected} == expected
    alone = rows_of(run("ssgd", 0), run("thin", 0, **thin, workers=8))
    assert math.isnan(alone.push_reduction_percent["thin"])


def test_a_reduction_and_a_speed_up_are_against_the_baseline_of_the_same_kind():
    emulated = {"kind": "emulated"}
    table = table_of(
        [
            run("ssgd", 0),
            run("thin", 0, bytes_=(50, 100, 150, 0)),
            run("ssgd", 0, bytes_=(400, 400, 800, 0), train_seconds=30.0, **emulated),
            run("thin", 0, bytes_=(100, 400, 400, 0), train_seconds=10.0, **emulated),
        ]
    ).set_index(["kind", "method"])
    assert table.push_reduction_percent["inprocess", "thin"] == 50
    assert table.push_reduction_percent["emulated", "thin"] == 75
    assert table.train_speed_up["emulated", "thin"] == 3
    alone = rows_of(run("ssgd", 0), run("thin", 0, **emulated))
    assert math.isnan(alone.push_reduction_percent["thin"]), "its only baseline is of another kind"
    # One of nearly everything is not rounded to everything.
    text = markdown(run("ssgd", 0, bytes_=(10_000,) * 4), run("thin", 0, bytes_=(4,) * 4))
    assert "99.96" in text
    assert "100.0" not in text


def test_the_busiest_link_is_compared_beside_the_mean():
    """A parameter server sends and receives for all workers; the mean over the workers hides that."""
    baseline = run("ssgd", 0, wire_sent_max_bytes=150, wire_received_max_bytes=150)
    sends = run("sends", 0, bytes_=(10, 10, 15, 0), wire_sent_max_bytes=300, wire_received_max_bytes=30)
    receives = run("receives", 0, bytes_=(10, 10, 15, 0), wire_sent_max_bytes=30, wire_received_max_bytes=600)
    table = rows_of(baseline, sends, receives)
    assert list(table.wire_reduction_percent) == [0, 90, 90]
    assert list(table.busiest_link_reduction_percent) == [0, -100, -300]
    text = ledgers(baseline, sends, receives)
    assert "| busiest link less, % " in text
    assert "| -300.0 " in text
    assert "Busiest link is the most that one worker sends, or receives" in text


def test_a_run_at_chance_level_is_marked():
    """Of 539 images in ten classes, guessing gets 10 % right, with a standard deviation of 1.29 points."""
    runs = run("ssgd", 0, accuracy=13.9), run("thin", 0, accuracy=13.8), run("thin", 1, accuracy=90.0)
    assert list(rows_of(*runs).at_chance_level) == [0, 1]
    assert "51.90 ± 53.88 (2), 1 at chance level" in markdown(*runs)
    early = run("ssgd", 0, accuracy=1.0, classes=math.nan)
    assert math.isnan(rows_of(early).at_chance_level["ssgd"])
    for known_or_not in (run("ssgd", 0), early):
        assert "chance" not in markdown(known_or_not)


def test_a_run_that_is_not_done_is_counted_and_never_averaged():
    runs = (
        run("ssgd", 0),
        run("ssgd", 1, status="diverged", accuracy=10.0, reason="not finite after step 3"),
        run("ssgd", 2, status="failed", accuracy=None, reason="out of\nluck"),
        run("thin", 0, status="skipped", accuracy=None, bytes_=(None,) * 4, reason="it wants more"),
    )
    table = rows_of(*runs)
    assert table.score_mean["ssgd"] == 90
    assert (table.diverged["ssgd"], table.failed["ssgd"], table.skipped["thin"]) == (1, 1, 1)
    text = markdown(*runs)
    assert "90.00 (1), 1 diverged, 1 failed" in text
    assert "ssgd: not finite after step 3; out of luck." in text
    assert "thin: it wants more." in text


def test_a_held_out_accuracy_is_not_called_a_test_accuracy():
    assert "held-out accuracy, %" in markdown(run("ssgd", 0), about=ABOUT._replace(evaluated_on="held_out"))


def test_the_bytes_of_a_preparation_have_columns_of_their_own():
    runs = run("ssgd", 0), run("thin", 0, bytes_=(0, 0, 0, 0), **prepared())
    text = ledgers(*runs)
    assert "prepared from" not in text.lower()
    table = rows_of(*runs)
    assert table.total_reduction_percent["thin"] == 100
    # 5 MB of preparation against 200 bytes of SSGD.
    assert table.total_with_prepared_reduction_percent["thin"] == pytest.approx(100 * (1 - 5e6 / 200))
    assert table.total_with_prepared_reduction_percent["ssgd"] == 0
    assert "saved with preparation" not in markdown(run("ssgd", 0))
    assert "prepared" not in ledgers(run("ssgd", 0)).lower()


def test_a_preparation_breaks_even_after_the_runs_that_save_its_bytes():
    """SSGD sends 4 MB a run and `thin` 1.5 MB, with 5 MB of preparation; `thick` saves nothing."""
    ssgd, thin = (2e6, 2e6, 4e6, 4e6), (1e6, 0.5e6, 1e6, 1e6)
    others = [run(name, 0, bytes_=sent, **prepared()) for name, sent in (("thin", thin), ("thick", ssgd))]
    table = table_of([run("ssgd", 0, bytes_=ssgd), *others])
    after = runs_to_break_even(table, "ssgd").set_axis(table.method)
    assert after["thin"] == 2
    assert after.isna().to_dict() == {"ssgd": True, "thick": True, "thin": False}


def test_the_runs_that_use_a_preparation_divide_it():
    """Of three done runs two use one preparation. A run that failed used it too, and bears no share."""
    sent, first = {"bytes_": (1e6, 0.5e6, 1e6, 1e6)}, prepared(path="digits/cnn/thin/seed0")
    runs = (
        run("ssgd", 0, bytes_=(2e6, 2e6, 4e6, 4e6)),
        run("thin", 0, **sent, **first),
        run("thin", 1, **sent, **prepared(path="digits/cnn/thin/seed1")),
        run("reuses", 0, **sent, **first),
        run("reuses", 1, "failed", None, (None,) * 4, **first),
    )
    table = table_of(runs).set_index("method")
    shared = table.total_with_share_of_prepared_bytes
    assert shared.to_dict() == {"ssgd": 4e6, "thin": 1.5e6 + (2.5e6 + 5e6) / 2, "reuses": 1.5e6 + 2.5e6}
    assert (table.preparation_runs_min["thin"], table.preparation_runs_max["thin"]) == (1, 2)
    assert table.preparation_runs_max["reuses"] == 2
    # All shares together are the two preparations.
    extra = shared - table.total_bytes
    assert (extra * table.done).sum() == 2 * 5e6
    assert "| 1 to 2 " in ledgers(*runs)


def test_the_epochs_are_shown_if_they_differ():
    assert "epochs" not in markdown(run("ssgd", 0), run("thin", 0)).lower()
    runs = run("ssgd", 0), run("half", 0, epochs=6)
    assert "half (6 epochs)" in markdown(*runs)
    assert "| 6 " in ledgers(*runs)


def test_recipes_are_shown_if_a_method_has_its_own():
    runs = run("ssgd", 0), run("sign", 0)
    suite = untuned("laptop")
    assert "recipe" not in ledgers(*runs, about=About.of(suite)).partition("\n|:")[0]
    entry = Entry(recipe=tunable({"lr": 0.02, "warmup_epochs": 1, "momentum": 0.5}))
    own = suite.model_copy(update={"methods": suite.methods | {"sign": entry}})
    text = ledgers(*runs, about=About.of(own))
    assert "| lr 0.02, momentum 0.5 |" in text
    assert "(lr 0.1, weight_decay 0.0005, momentum 0.9, warmup_epochs 1)" in text
    assert "The suite sets these values." in text
    strided = suite.model_copy(update={"methods": suite.methods | {"sign": Entry(reading="strided")}})
    text = ledgers(*runs, about=About.of(strided))
    assert "| strided reading |" in text
    assert "warmup_epochs 1, random reading)" in text
    grown = {
        "tuned": "demo",
        "methods": {"ssgd": Entry(), "sign": entry, "*": Entry()},
        "leave_out": [name for name in plugins.find("method") if name not in ("ssgd", "hsgd", "ps_sgd")],
    }
    text = ledgers(*runs, about=About.of(suite.model_copy(update=grown)))
    assert f"on held-out images, in {tuned.read('demo').cost.runs} runs (config/tuned/demo.yaml)." in text
    assert "Not tuned, with the recipe of the suite: hsgd, ps_sgd." in text


@pytest.mark.parametrize("label", ["NA", "null", "1", "1e3"])
def test_labels_are_text_whatever_they_look_like(label, tmp_path):
    row = run(label, 0, model=label, suite="s")
    pd.DataFrame([row]).to_csv(tmp_path / collect.SUMMARY, index=False)
    content = {"files": digests.of_files(tmp_path, [collect.SUMMARY])}
    digests.write_json(tmp_path / collect.COLLECTED, content)
    runs = collect.read_summary(tmp_path, "s")
    made = summarise(runs, [label], CLASSIFICATION)
    assert list(made.method) == [label]
    assert list(made.total_reduction_percent) == [0]


def test_measured_runs_have_seconds_and_a_speed_up_over_the_baseline():
    measured = {"kind": "measured"}
    runs = (
        run("ssgd", 0, train_seconds=30.0, **measured),
        run("ssgd", 1, train_seconds=50.0, **measured),
        run("thin", 0, train_seconds=16.0, **measured),
        run("lost", 0, status="failed", train_seconds=math.nan, reason="gone", **measured),
    )
    table = rows_of(*runs)
    assert table.train_seconds["ssgd"] == 40
    assert table.train_seconds_sd["ssgd"] == pytest.approx(math.sqrt(200))
    assert table.train_speed_up["thin"] == 2.5
    # Runs on crowded machines have no seconds, and the table says why.
    crowded = {"kind": "measured", "no_time_because": "4 workers shared 2 cores of a"}
    assert "training, s" not in ledgers(run("ssgd", 0, **crowded))
    assert "No time, because 4 workers shared 2 cores of a." in markdown(run("ssgd", 0, **crowded))


def test_every_variant_of_the_baseline_is_a_baseline_and_an_ablation_is_none():
    assert baselines(load("claims/mp2_digits"))[0] == "ssgd"
    demo = load("demo")
    ablations = {
        "ssgd_no_overlap": Entry(use="ssgd", options={"overlap": False}),
        "ssgd_bf16_no_overlap": Entry(use="ssgd", options={"gradients": "bfloat16", "overlap": False}),
        "ssgd_overlap": Entry(use="ssgd", options={"overlap": True}),
    }
    suite = demo.model_copy(update={"methods": demo.methods | ablations})
    assert baselines(suite) == ["ssgd", "ssgd_bf16", "ssgd_overlap"]
    assert About.of(suite).baselines == ("ssgd", "ssgd_bf16", "ssgd_overlap")


def test_only_simulated_speed_ups_above_that_of_the_baseline_have_a_mark():
    """The fastest baseline has 1 by definition."""
    block = pd.DataFrame({"step_speed_up": [0.8, 1.0, 1.2], "time_from": "simulated (ethernet_1g)"})
    block = block.assign(done=3, diverged=0, failed=0, skipped=0, at_chance_level=0)
    assert numbers.of_speed_ups(block) == [Mark.NONE, Mark.NONE, Mark.BEST]
    assert numbers.of_speed_ups(block.assign(time_from="measured")) == [Mark.NONE] * 3
