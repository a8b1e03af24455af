"""Tuning: what is tried, alike for all methods, what is chosen, and what a suite takes from it."""

import copy
import math
import re
from argparse import Namespace
from dataclasses import replace

import pandas as pd
import pytest
import yaml

from tests.bad_input.test_suites import GOOD, changed, message
from tests.docs import pages
from thinwire import digests, plugins, record
from thinwire.cli import tuned as tuned_command
from thinwire.config import expand_suite, suite, tuned, tuning_space, yaml_file
from thinwire.config.ranges import LINEAR, LOG_OF_STEPS, Range
from thinwire.optim.tunable import values_of
from thinwire.plugins import ROOT
from thinwire.tuning import choose, figure, rows_of_trials, write_tuned

METHODS = {
    "*": None,
    "hylo": {"options": {"conv_threshold": 64}},
    "hylo_mean": {"use": "hylo", "options": {"kappa": 1.0}, "epochs": 2},
}
LEAVE_OUT = [name for name in plugins.find("method") if name not in ("ssgd", "hylo", "top_k")]
BASE = {
    "methods": METHODS,
    "leave_out": LEAVE_OUT,
    "workers": [2, {"workers": 4, "nodes": 2}],
    "recipe.epochs": 4,
    "recipe.schedule": {"warmup_epochs": 1},
    "repetitions": 3,
    "transport": "processes",
}
TUNING = {
    "title": "a tuning",
    "trials": 4,
    "repetitions": 2,
    "datasets": ["digits"],
    "models": ["cnn"],
    "workers": [2],
    "space": {"lr": [0.01, 1.0], "momentum": [0.8, 0.98], "warmup_epochs": [0, 2]},
}


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Write the suite `base` and its tuning with some changes, and have them found."""
    for module in (suite, tuning_space, tuned):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    literal = plugins.Plugin.literal
    monkeypatch.setattr(
        plugins.Plugin,
        "literal",
        lambda plugin, name: (
            {"kappa": (0.5, 2.0)} if (plugin.name, name) == ("hylo", "tunes") else literal(plugin, name)
        ),
    )
    (tmp_path / "config" / "tuning").mkdir(parents=True)

    def write(changes=None, tuning=None):
        base = changed(copy.deepcopy(BASE) | (changes or {}))
        (tmp_path / "config" / "base.yaml").write_text(yaml.safe_dump(base))
        (tmp_path / "config" / "tuning" / "base.yaml").write_text(yaml.safe_dump(TUNING | (tuning or {})))

    write()
    return write


def tried():
    """The cell of every trial's first run, by method and number."""
    cells = [cell for cell in expand_suite.cells("tuning/base") if cell.repetition == 0]
    return {rows_of_trials.of_trial_label(cell.method.label): cell for cell in cells}


# ---- What is tried.


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


def test_the_first_trial_is_the_suite_itself_with_other_seeds_and_held_out_images(files):
    own = {cell.method.label: cell for cell in expand_suite.cells("base") if cell.size_label == "w2"}
    for (label, trial), cell in tried().items():
        if trial == 0:
            assert (cell.recipe, cell.method.options) == (own[label].recipe, own[label].method.options)
        assert (cell.evaluate_on, cell.transport, cell.size_label) == ("held_out", "inprocess", "w2")
    seeds = {cell.seed for cell in expand_suite.cells("tuning/base")}
    assert len(seeds) == 2
    assert not seeds & {cell.seed for cell in expand_suite.cells("base")}


def test_more_trials_begin_with_the_same_ones(files):
    few = tried()
    files(tuning={"trials": 7})
    many = tried()
    assert {key: many[key] for key in few} == few


def test_an_option_is_drawn_if_the_method_names_it_and_the_suite_does_not_set_it(files):
    found = tried()
    kappas = [found["hylo", trial].method.options.get("kappa") for trial in range(4)]
    assert kappas[0] is None
    assert len(set(kappas)) == 4
    assert all(0.5 <= kappa <= 2 for kappa in kappas[1:])
    assert {found["hylo_mean", trial].method.options["kappa"] for trial in range(4)} == {1.0}
    assert found["hylo", 2].method.options["conv_threshold"] == 64


def test_values_lie_on_the_scale_of_their_range():
    assert Range(0.01, 1.0).at(0.5) == 0.1
    assert Range(1, 100).at(0.49) == 10
    assert Range(0.9, 0.99, LOG_OF_STEPS).at(0.5) == pytest.approx(1 - 10**-1.5, abs=1e-4)
    assert Range(0.0, 2.0, LINEAR).at(0.25) == 0.5


@pytest.mark.parametrize(
    ("tuning", "words"),
    [
        ({"space": {"rate": [0.1, 1.0]}}, "space.rate: there is no such key"),
        ({"space": {}}, "space: it names none of the keys lr, weight_decay, momentum, warmup_epochs"),
        (
            {"repetitions": 1},
            "repetitions: one run cannot tell a good trial from a lucky one: take at least 2",
        ),
        ({"space": {"lr": [1.0, 0.1]}}, "space: lr: the range [1.0, 0.1] does not rise"),
        ({"space": {"lr": [0.0, 0.1]}}, "space: lr: a logarithmic range begins above 0"),
        ({"space": {"momentum": [0.9, 1.0]}}, "space: momentum: its values are from 0 to below 1"),
        ({"space": {"lr": [0.1]}}, "space.lr:"),
        ({"space": {"lr": [0.2, 1.0]}}, "space.lr: the suite's own value 0.1 is outside 0.2 to 1"),
        ({"trials": 1}, "trials:"),
        ({"evaluate_on": "test"}, "evaluate_on:"),
        ({"models": ["cmm"]}, "models: the suite has no cmm; the nearest is cnn"),
        ({"workers": [3]}, "workers: the suite has no w3; the nearest is"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_wrong_tuning_is_one_sentence(files, tuning, words):
    files(tuning=tuning)
    assert words in message(suite.load, "tuning/base")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"methods.top_k": {"recipe": {"optimizer": {"lr": 0.5}}}}, "space.lr: the suite sets it for top_k"),
        (
            {"methods.top_k": {"optimizer": {"name": "lars", "lr": 0.5}}},
            "space.lr: the suite sets it for top_k",
        ),
        ({"recipe.optimizer": {"name": "adam", "lr": 0.1}}, "space.momentum: the suite's optimizer adam has"),
    ],
)
def test_a_suite_that_does_not_fit_its_tuning_is_one_sentence(files, changes, words):
    files(changes)
    assert words in message(suite.load, "tuning/base")


def test_a_missing_tuning_is_one_sentence(files):
    assert "no tuning of suite 'bass': config/tuning/ has base" in message(suite.load, "tuning/bass")


@pytest.mark.parametrize(
    "value",
    [{"a": (0.0, 1.0)}, {"a": (2, 1)}, {"a": 3}, {"a": (1, 2), "b": (1, 2), "c": (1, 2)}],
    ids=str,
)
def test_a_method_that_names_its_options_wrongly_is_one_sentence(files, monkeypatch, value):
    monkeypatch.setattr(plugins.Plugin, "literal", lambda plugin, name: value)
    assert "tunes names at most 2 options" in message(suite.load, "tuning/base")


def test_files_of_tunings_and_of_their_choices_are_no_suites(files, tmp_path):
    (tmp_path / "config" / "tuned").mkdir()
    (tmp_path / "config" / "tuned" / "base.yaml").write_text("rules: 1")
    assert [path.name for path in suite.suite_files()] == ["base.yaml"]
    assert "there is no suite 'tuned/base'" in message(suite.load, "tuned/base")


# ---- What is chosen.


def runs_of(rows):
    """Runs as (method, trial, accuracy, bytes, status)."""
    columns = ["method", "trial", "accuracy_percent", "payload_bytes", "status"]
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
    table = choose.trials(runs_of([("m", *row) for row in rows]))
    assert choose.best(table).trial == best


def test_the_best_so_far_never_falls_and_is_of_the_method_alone():
    rows = [("a", 0, 50.0, 1, "done"), ("b", 0, 90.0, 1, "failed"), ("a", 1, 40.0, 1, "done")]
    rows += [("b", 1, 60.0, 1, "done"), ("a", 2, 70.0, 1, "done"), ("b", 2, 55.0, 1, "done")]
    table = choose.best_so_far(choose.trials(runs_of(rows)))
    assert table[table.method == "a"].best_percent.tolist() == [50, 50, 70]
    found = table[table.method == "b"].best_percent.tolist()
    assert math.isnan(found[0])
    assert found[1:] == [60, 60]


@pytest.mark.parametrize(("value", "end"), [(0.0105, "low"), (0.1, None), (0.9, "high"), (0.05, None)])
def test_a_value_in_the_outer_twentieth_of_its_scale_is_at_the_edge(value, end):
    assert Range(0.01, 1.0).edge(value) == end


# ---- What is written, and what a suite takes from it.


@pytest.fixture
def choices(files, tmp_path, monkeypatch):
    """Write the choices: the method's third trial is best, except that all of top_k diverge.

    `best` may be another trial.
    """
    best = 2

    def made_of(folder, cell):
        method, trial = rows_of_trials.of_trial_label(cell.method.label)
        traffic = record.Traffic.sum([])
        return record.Record(
            kind="inprocess",
            status="diverged" if method == "top_k" else "done",
            reason="not finite" if method == "top_k" else None,
            cell=cell.identity(),
            fingerprint=cell.fingerprint,
            method_options={},
            model_options={},
            steps_per_epoch=5,
            result=record.Result(
                steps=20,
                test_accuracy_percent=90.0 - abs(trial - best),
                test_loss=1.0,
                best_test_accuracy_percent=99.0,
                traffic=traffic,
                seconds=record.Seconds(train=1.0, eval=0.5, harness=9.0),
            ),
            provenance={},
        )

    monkeypatch.setattr(rows_of_trials, "record_of", made_of)
    of_file = digests.of_file
    monkeypatch.setattr(digests, "of_file", lambda p: "0" if p.name == record.RUN else of_file(p))

    def write(trial=2):
        nonlocal best
        best = trial
        made = write_tuned.write_tuned("base", rows_of_trials.runs_of_trials("base", tmp_path))
        assert tuned.read("base") == made
        return made

    return write


def test_the_file_has_the_choice_the_cost_and_the_record_of_all_trials(choices, tmp_path):
    made, found = choices(), tried()
    choice = made.methods["hylo"]
    assert choice.trial == 2
    assert choice.accuracy_percent == 90
    drawn = values_of(found["hylo", 2].recipe)
    assert choice.recipe.values == {key: drawn[key] for key in ("lr", "momentum", "warmup_epochs")}
    assert choice.options == {"kappa": found["hylo", 2].method.options["kappa"]}
    assert made.methods["ssgd"].options == {}
    lost = made.methods["top_k"]
    assert (lost.trial, lost.accuracy_percent, lost.trials_ended, lost.at_edge) == (0, None, 0, {})
    assert lost.recipe.values["lr"] == 0.1
    assert made.cost.model_dump() == {"runs": 32, "epochs": 32 * 4.0, "seconds": 32 * 1.5}
    rows = pd.read_csv(tmp_path / "config" / "tuned" / "base.csv")
    assert len(rows) == 32
    assert set(rows.fingerprint) == {cell.fingerprint for cell in expand_suite.cells("tuning/base")}
    page = (ROOT / "docs" / "tuning.md").read_text()
    explained = {
        name for table in pages.tables(page) for row in table for name in re.findall("`(.*?)`", row[0])
    }
    assert {re.sub("^option/.*", "option/*", column) for column in rows} <= explained
    assert set(tuning_space.Tuning.model_fields) <= explained


def test_a_best_value_at_the_edge_of_its_range_is_named_and_printed(files, choices, tmp_path, capsys):
    files(tuning={"space": {"lr": [0.1, 1.0], "warmup_epochs": [0, 2]}})
    made = choices(0)
    assert made.methods["ssgd"].at_edge == {"lr": "low"}
    assert made.methods["top_k"].at_edge == {}
    tuned_command.main(Namespace(suite="base", results=tmp_path))
    said = capsys.readouterr()
    assert "ssgd: the best lr is near the low end of its range: widen it" in said.err
    assert "top_k: no trial has ended, so it keeps the suite's own recipe" in said.err
    assert "hylo: trial 0, accuracy 90.00 %: lr 0.1, warmup_epochs 1" in said.out
    assert (tmp_path / "figures" / "tuning" / "base" / "best_so_far.pdf").is_file()


def test_a_suite_takes_what_was_chosen_for_its_methods(files, choices):
    choices()
    before = {cell.path: cell for cell in expand_suite.cells("base")}
    files({"tuned": "base"})
    after, found = expand_suite.cells("base"), tried()
    assert [cell.path for cell in after] == list(before)
    for cell in after:
        best = found[cell.method.label, 0 if cell.method.label == "top_k" else 2]
        assert values_of(cell.recipe) == values_of(best.recipe)
        assert cell.method.options == best.method.options
        same = {"recipe": cell.recipe, "preparer_recipe": cell.preparer_recipe, "method": cell.method}
        assert replace(before[cell.path], **same) == cell


@pytest.mark.parametrize(
    ("changes", "tuning", "words"),
    [
        ({}, {"trials": 5}, "made from another"),
        ({"recipe.batch": 16}, {}, "another recipe than this suite has (these differ: batch)"),
        ({"methods.other": {"use": "ssgd"}}, {}, "methods.other: "),
        (
            {"methods.hylo": {"options": {"conv_threshold": 32}}},
            {},
            "made for another entry (these differ: options)",
        ),
        (
            {"methods.hylo_mean": {"use": "hylo", "options": {"kappa": 1.0}}},
            {},
            "made for another entry (these differ: epochs)",
        ),
        (
            {"methods.ssgd": {"recipe": {"optimizer": {"weight_decay": 0.3}}}},
            {},
            "made for another entry (these differ: recipe)",
        ),
        (
            {"methods.ssgd": {"recipe": {"optimizer": {"lr": 0.3}}}},
            {},
            "methods.ssgd: it sets lr, which ",
        ),
        (
            {"methods.ssgd": {"optimizer": {"lr": 0.3}}},
            {},
            "methods.ssgd: it sets lr and momentum, which ",
        ),
    ],
    ids=lambda value: str(value)[:40],
)
def test_choices_that_do_not_belong_to_a_suite_are_refused(files, choices, changes, tuning, words):
    choices()
    files({"tuned": "base"} | changes, tuning)
    text = message(suite.load, "base")
    assert words in text
    assert "remove it here" in text or "snakemake --config tune=base" in text


def test_a_method_that_is_new_has_the_recipe_of_the_suite_until_it_is_tuned(files, choices):
    choices()
    files({"tuned": "base", "leave_out": [name for name in LEAVE_OUT if name != "ps_sgd"]})
    found = {cell.method.label: cell.recipe.optimizer.lr for cell in expand_suite.cells("base")}
    assert found["ps_sgd"] == 0.1 != found["ssgd"]


def test_choices_under_other_rules_or_edited_ones_are_refused(files, choices, monkeypatch):
    assert "base.yaml is missing: `snakemake --config tune=base` makes it" in message(tuned.read, "base")
    choices()
    files({"tuned": "base"})
    path = tuned.path_of("base")
    path.write_text(path.read_text().replace("lr: 0.1\n", "lr: 0.2\n"))
    assert "was changed after it was written" in message(suite.load, "base")
    choices()
    monkeypatch.setattr(tuned, "RULES_VERSION", 99)
    assert "and this is version 99: start `snakemake --config tune=base` again" in message(suite.load, "base")


def test_the_figure_has_a_line_for_every_method(tmp_path, monkeypatch):
    rows = [(m, t, 50.0 + t, 1, "done" if m != "c" else "failed") for m in "abc" for t in range(3)]
    kept = []
    monkeypatch.setattr(figure.style, "save", lambda figure, stem: kept.append(figure))
    figure.write(choose.trials(runs_of(rows)), tmp_path, ["a"])
    lines = [line.get_xydata().tolist() for line in kept[0].axes[0].get_lines() if len(line.get_xydata())]
    assert lines == [[[1, 50], [2, 51], [3, 52]]] * 2
    assert "no trial of c ended" in kept[0].texts[0].get_text()


# ---- A recipe of a method's own.


def test_a_method_has_its_own_values_and_all_others_of_the_suite(files):
    own = {"optimizer": {"lr": 0.02, "momentum": 0.5}, "schedule": {"warmup_epochs": 2}}
    files({"methods.hylo_mean": {"use": "hylo", "epochs": 2, "recipe": own}})
    found = {cell.method.label: cell.recipe for cell in expand_suite.cells("base")}
    assert values_of(found["hylo_mean"]) == {
        "lr": 0.02,
        "weight_decay": 0,
        "momentum": 0.5,
        "warmup_epochs": 2,
    }
    assert found["hylo_mean"].epochs == 2
    assert found["ssgd"] == suite.load("base").recipe
    assert GOOD["recipe"]["optimizer"]["lr"] == found["ssgd"].optimizer.lr


def test_runs_with_different_rates_do_not_share_a_preparation(files):
    faster = {"use": "wnn", "recipe": {"optimizer": {"lr": 0.3}}}
    methods = {"ssgd": None, "wnn": None, "wnn_half": {"use": "wnn", "epochs": 2}, "faster": faster}
    files({"methods": methods, "leave_out": []})
    preparers = {cell.method.label: cell.preparer for cell in expand_suite.cells("base")}
    assert preparers == {"ssgd": "ssgd", "wnn": "wnn", "wnn_half": "wnn", "faster": "faster"}


def test_a_digest_that_looks_like_a_number_stays_text():
    content = {"digests": ["51e2ee3e1a40d15c", "1234e567", "12345", "1e-2"], "lr": 0.00001}
    assert yaml_file.parse(yaml_file.text_of(content), "") == content
