"""Tuning: what is tried, alike for all methods, which trial is chosen, and what a tuning may say."""

import math

import pandas as pd
import pytest

from tests.bad_input.suites import GOOD, cases, message, require
from tests.unit.tuning_base import tried
from thinwire import plugins
from thinwire.base.learning import CLASSIFICATION
from thinwire.config import expand, suite
from thinwire.config.entries import heirs
from thinwire.config.entry_schema import Entry
from thinwire.config.tuning_space import LINEAR, LOG_OF_STEPS, Range
from thinwire.optim.tunable import values_of
from thinwire.report import tuning


def test_every_method_tries_the_same_values_of_the_recipe(files):
    found = tried()
    assert {label for label, _ in found} == {"ssgd", "hylo", "hylo_mean", "top_k"}
    assert len(found) == 4 * 4
    for (_, trial), cell in found.items():
        values = values_of(cell.recipe)
        assert values == values_of(found["ssgd", trial].recipe)
        assert 0.01 <= values["lr"] <= 1
        assert 0.8 <= values["momentum"] <= 0.98
        assert 0 <= values["warmup_epochs"] <= 2
    drawn = {tuple(values_of(found["ssgd", trial].recipe).values()) for trial in range(4)}
    assert len(drawn) == 4
    assert found["hylo_mean", 3].recipe.epochs == 2
    # More trials begin with the same ones.
    files(tuning={"trials": 7})
    many = tried()
    assert {key: many[key] for key in found} == found


@pytest.mark.parametrize(("optimizer", "more"), [("adamw", {}), ("muon", {"momentum": [0.8, 0.98]})])
def test_rate_and_weight_decay_of_adamw_and_muon_are_drawn(files, optimizer, more):
    """And Muon's momentum, whose usual value the first trial has."""
    space = {"lr": [1e-4, 0.1], "weight_decay": [1e-3, 1.0], **more}
    recipe = {"name": optimizer, "lr": 0.003, "weight_decay": 0.1}
    files({"recipe.optimizer": recipe}, {"space": space})
    found = tried()
    for trial in range(4):
        values = values_of(found["top_k", trial].recipe)
        assert values == values_of(found["ssgd", trial].recipe)
        assert values.keys() == {*space, "warmup_epochs"}
    assert len({values_of(found["ssgd", trial].recipe)["weight_decay"] for trial in range(4)}) == 4
    assert found["ssgd", 0].recipe.optimizer.momentum == (0.95 if optimizer == "muon" else 0.9)


def test_a_method_with_its_own_optimizer_is_tuned_with_it(files):
    own = {"name": "lars", "lr": 0.5, "momentum": 0.95, "trust": 0.01}
    files({"methods.top_k": {"optimizer": own}})
    found = tried()
    first, *others = [found["top_k", trial].recipe.optimizer for trial in range(4)]
    assert (first.name, first.lr, first.momentum, first.trust) == tuple(own.values())
    for trial, optimizer in enumerate(others, start=1):
        drawn = found["ssgd", trial].recipe.optimizer
        assert (optimizer.name, optimizer.trust) == ("lars", 0.01)
        assert (optimizer.lr, optimizer.momentum) == (drawn.lr, drawn.momentum)


def test_the_first_trial_is_the_suite_itself_with_other_seeds_and_held_out_images(files):
    own = {cell.method.label: cell for cell in expand.cells("base") if cell.size_label == "w2"}
    for (label, trial), cell in tried().items():
        if trial == 0:
            assert (cell.recipe, cell.method.options) == (own[label].recipe, own[label].method.options)
        assert (cell.evaluate_on, cell.transport, cell.size_label) == ("held_out", "inprocess", "w2")
    seeds = {cell.seed for cell in expand.cells("tuning/base")}
    assert len(seeds) == 2
    assert not seeds & {cell.seed for cell in expand.cells("base")}


def test_an_option_is_drawn_if_the_method_names_it_and_the_suite_does_not_set_it(files):
    found = tried()
    kappas = [found["hylo", trial].method.options.get("kappa") for trial in range(4)]
    assert kappas[0] is None
    assert len(set(kappas)) == 4
    assert all(0.5 <= kappa <= 2 for kappa in kappas[1:])
    assert {found["hylo_mean", trial].method.options["kappa"] for trial in range(4)} == {1.0}
    assert found["hylo", 2].method.options["conv_threshold"] == 64


def test_methods_that_compute_what_ssgd_does_take_its_choices():
    entries = {
        "ssgd": Entry(),
        "ssgd_bf16": Entry(use="ssgd", options={"gradients": "bfloat16"}),
        "ps_sgd": Entry(),
        "long": Entry(use="hsgd", epochs=9),
        "long_ps": Entry(use="ps_sgd", epochs=9),
        "top_k": Entry(),
        "unknown": Entry(),
    }
    assert heirs(entries) == {"ssgd_bf16": "ssgd", "ps_sgd": "ssgd", "long_ps": "long"}


WRONG = """
space: {rate: [0.1, 1.0]} => space.rate: there is no such key
space: {} => space: it names none of the keys lr, weight_decay, momentum, warmup_epochs
repetitions: 1 => repetitions: one run cannot tell a good trial from a lucky one: take at least 2
space: {lr: [1.0, 0.1]} => space: lr: the range [1.0, 0.1] does not rise
space: {lr: [0.0, 0.1]} => space: lr: a logarithmic range begins above 0
space: {momentum: [0.9, 1.0]} => space: momentum: its values are from 0 to below 1
space: {lr: [0.1]} => space.lr:
space: {lr: [0.2, 1.0]} => space.lr: the suite's own value 0.1 is outside 0.2 to 1
trials: 1 => trials:
evaluate_on: test => evaluate_on:
models: [cmm] => models: the suite has no cmm; the nearest is cnn
workers: [3] => workers: the suite has no w3; the nearest is
"""
UNFIT = """
methods.top_k: {recipe: {optimizer: {lr: 0.5}}} => space.lr: the suite sets it for top_k
methods.top_k: {optimizer: {name: lars, lr: 50}} => space.lr: top_k's own value 50 is outside
recipe.optimizer: {name: adam, lr: 0.1} => space.momentum: the suite's optimizer adam has
recipe.optimizer: {name: adamw, lr: 0.1} => space.momentum: the suite's optimizer adamw has
"""


@pytest.mark.parametrize(("tuning", "words"), cases(WRONG))
def test_a_wrong_tuning_is_one_sentence(files, tuning, words):
    files(tuning=tuning)
    require(message(suite.load, "tuning/base"), words)


@pytest.mark.parametrize(("changes", "words"), cases(UNFIT))
def test_a_suite_that_does_not_fit_its_tuning_is_one_sentence(files, changes, words):
    files(changes)
    require(message(suite.load, "tuning/base"), words)


def test_a_suite_with_times_of_its_own_can_be_tuned(files):
    """What it says about them names methods, which trials are not."""
    simulated = {
        "accelerators": ["a100_fp32"],
        "cluster": "infiniband_1600g_8gpus",
        "workers": [16],
        "links": [{"rate_gbit_per_second": 1.0, "latency_seconds": 1e-5}],
        "workers_per_node": [8],
        "rounds": {"top_k": {"steps": 4}},
    }
    files({"ladder": ["ssgd", "top_k"], "without_data": simulated})
    assert len(tried()) == 4 * 4


@pytest.mark.parametrize(
    "value", [{"a": (0.0, 1.0)}, {"a": (2, 1)}, {"a": 3}, {"a": (1, 2), "b": (1, 2), "c": (1, 2)}], ids=str
)
def test_a_method_that_names_its_options_wrongly_is_one_sentence(files, monkeypatch, value):
    monkeypatch.setattr(plugins.Plugin, "literal", lambda plugin, name: value)
    assert "tunes names at most 2 options" in message(suite.load, "tuning/base")


def test_files_of_tunings_and_of_their_choices_are_no_suites(files, tmp_path):
    (tmp_path / "config" / "tuned").mkdir()
    (tmp_path / "config" / "tuned" / "base.yaml").write_text("rules: 1")
    assert [path.name for path in suite.suite_files().values()] == ["base.yaml"]
    assert "there is no suite 'tuned/base'" in message(suite.load, "tuned/base")
    assert "no tuning of suite 'bass': config/tuning/ has base" in message(suite.load, "tuning/bass")


def test_a_method_has_its_own_values_and_all_others_of_the_suite(files):
    own = {"optimizer": {"lr": 0.02, "momentum": 0.5}, "schedule": {"warmup_epochs": 2}}
    files({"methods.hylo_mean": {"use": "hylo", "epochs": 2, "recipe": own}})
    found = {cell.method.label: cell.recipe for cell in expand.cells("base")}
    own = {"lr": 0.02, "weight_decay": 0, "momentum": 0.5, "warmup_epochs": 2}
    assert values_of(found["hylo_mean"]) == own
    assert found["hylo_mean"].epochs == 2
    assert found["ssgd"] == suite.load("base").recipe
    assert GOOD["recipe"]["optimizer"]["lr"] == found["ssgd"].optimizer.lr


def test_runs_with_different_rates_do_not_share_a_preparation(files):
    faster = {"use": "wnn", "recipe": {"optimizer": {"lr": 0.3}}}
    methods = {"ssgd": None, "wnn": None, "wnn_half": {"use": "wnn", "epochs": 2}, "faster": faster}
    files({"methods": methods, "leave_out": []})
    preparers = {cell.method.label: cell.preparer for cell in expand.cells("base")}
    assert preparers == {"ssgd": "ssgd", "wnn": "wnn", "wnn_half": "wnn", "faster": "faster"}


def test_four_digits_do_not_leave_the_range():
    assert Range(0.9, 0.99999, LOG_OF_STEPS).at(0.9999) == 0.99999


def test_values_lie_on_the_scale_of_their_range():
    assert Range(0.01, 1.0).at(0.5) == 0.1
    assert Range(1, 100).at(0.49) == 10
    assert Range(0.9, 0.99, LOG_OF_STEPS).at(0.5) == pytest.approx(1 - 10**-1.5, abs=1e-4)
    assert Range(0.0, 2.0, LINEAR).at(0.25) == 0.5


def runs_of(rows):
    """Runs as (method, trial, accuracy, bytes, status)."""
    columns = ["method", "trial", "tuned_score", "payload_bytes", "status"]
    return pd.DataFrame(rows, columns=columns)


@pytest.mark.parametrize(
    ("rows", "best"),
    [
        ([(0, 90.0, 5, "done"), (1, 91.0, 9, "done")], 1),
        # The mean over the runs of a trial counts.
        ([(0, 90.0, 5, "done"), (0, 90.0, 5, "done"), (1, 95.0, 5, "done"), (1, 84.0, 5, "done")], 0),
        ([(0, 90.0, 5, "done"), (1, 90.0, 4, "done"), (2, 90.0, 4, "done")], 1),
        ([(0, 20.0, 5, "done"), (1, 99.0, 5, "done"), (1, 99.0, 5, "diverged")], 0),
        ([(0, math.nan, math.nan, "skipped"), (1, 10.0, 5, "done")], 1),
        ([(0, 10.0, 5, "failed"), (1, 99.0, 5, "diverged")], 0),
        # The same runs in another order: the sums of these floats differ in their last bits.
        ([(1, a, 5, "done") for a in (0.1, 0.2, 0.3)] + [(0, a, 5, "done") for a in (0.3, 0.2, 0.1)], 0),
    ],
)
def test_the_best_trial_has_the_best_mean_then_the_fewest_bytes(rows, best):
    table = tuning.trials(runs_of([("m", *row) for row in rows]))
    assert tuning.best(table, CLASSIFICATION).trial == best


def test_the_best_so_far_never_falls_and_is_of_the_method_alone():
    rows = [("a", 0, 50.0, 1, "done"), ("b", 0, 90.0, 1, "failed"), ("a", 1, 40.0, 1, "done")]
    rows += [("b", 1, 60.0, 1, "done"), ("a", 2, 70.0, 1, "done"), ("b", 2, 55.0, 1, "done")]
    table = tuning.best_so_far(tuning.trials(runs_of(rows)), CLASSIFICATION)
    assert table[table.method == "a"].best_score.tolist() == [50, 50, 70]
    found = table[table.method == "b"].best_score.tolist()
    assert math.isnan(found[0])
    assert found[1:] == [60, 60]


@pytest.mark.parametrize(("value", "end"), [(0.02, "lowest"), (0.1, None), (0.4, "highest")])
def test_the_lowest_and_the_highest_value_that_were_tried_are_at_an_edge(value, end):
    assert tuning._edge(value, pd.Series([0.1, 0.4, math.nan, 0.02])) == end


def test_the_figure_has_a_line_for_every_method(draw):
    rows = [(m, t, 50.0 + t, 1, "done" if m != "c" else "failed") for m in "abc" for t in range(3)]
    table = tuning.trials(runs_of(rows))
    better = table.assign(tuned_score=table.tuned_score + 2)
    made = draw(tuning.write_figure, [table, better], CLASSIFICATION, ["a"])
    lines = [line.get_xydata().tolist() for line in made.axes[0].get_lines() if len(line.get_xydata())]
    assert lines == [[[1, 51], [2, 52], [3, 53]]] * 2
    assert "means over the seeds and 2 places" in made.texts[0].get_text()
    assert "no trial of c ended" in made.texts[0].get_text()
