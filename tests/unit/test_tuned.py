"""What a tuning has chosen: the file that is written, and what a suite takes from it."""

import re
from argparse import Namespace
from dataclasses import replace

import pandas as pd
import pytest

from tests import sound
from tests.bad_input.suites import cases, message, require
from tests.docs import pages
from tests.unit import tuning_base
from tests.unit.tuning_base import LEAVE_OUT, tried
from thinwire.base import digests
from thinwire.cli import results as tuned_command
from thinwire.config import expand, suite, trials, tuned, tuning_space
from thinwire.config.entries import baselines
from thinwire.config.tuning_space import Drawn, drawn_at
from thinwire.config.yaml_file import Size
from thinwire.optim.tunable import values_of
from thinwire.plugins import ROOT
from thinwire.records import record
from thinwire.records.result import Result, Seconds, Traffic
from thinwire.report import tuning
from thinwire.report.tables import about
from thinwire.train.result_files import record_folder


@pytest.fixture
def choices(files, tmp_path, monkeypatch):
    """Write the choices: the method's third trial is best, except that all of top_k diverge.

    `best` may be another trial; with 4 workers, and of `ps_sgd`, it is the one before.
    """
    best = 2

    def made_of(folder, cell):
        method, trial = tuning.of_trial_label(cell.method.label)
        trial += cell.workers == 4 or method == "ps_sgd"
        result = Result(
            steps=20,
            test_accuracy_percent=90.0 - abs(trial - best),
            test_loss=1.0,
            best_test_accuracy_percent=99.0,
            traffic=Traffic.sum([]),
            seconds=Seconds(train=1.0, eval=0.5, harness=9.0),
        )
        lost = {"status": "diverged", "reason": "not finite"} if method == "top_k" else {}
        return sound.made(cell, [], result=result, steps_per_epoch=5, provenance={}, **lost)

    monkeypatch.setattr(tuning, "record_of", made_of)
    of_file = digests.of_file
    monkeypatch.setattr(digests, "of_file", lambda p: "0" if p.name == record.RUN else of_file(p))

    def write(trial=2):
        nonlocal best
        best = trial
        for stage in suite.stages("base"):
            for cell in expand.cells(stage.name):
                run = record_folder(tmp_path, cell) / record.RUN
                run.parent.mkdir(parents=True, exist_ok=True)
                run.touch()
        runs, missing = tuning.runs_of_trials("base", tmp_path)
        assert missing == []
        made = tuning.write_tuned("base", runs)
        assert tuned.read("base") == made
        return made

    return write


def test_the_file_has_the_choice_the_cost_and_the_record_of_all_trials(choices, tmp_path):
    made, found = choices(), tried()
    choice = made.methods["hylo"].at["digits/cnn/w2"]
    assert (choice.trial, choice.accuracy_percent) == (2, 90)
    drawn = values_of(found["hylo", 2].recipe)
    assert choice.recipe.values == {key: drawn[key] for key in ("lr", "momentum", "warmup_epochs")}
    assert choice.options == {"kappa": found["hylo", 2].method.options["kappa"]}
    assert made.methods["ssgd"].at["digits/cnn/w2"].options == {}
    lost = made.methods["top_k"].at["digits/cnn/w2"]
    assert (lost.trial, lost.accuracy_percent, lost.trials_ended, lost.at_edge) == (0, None, 0, {})
    assert lost.recipe.values["lr"] == 0.1
    assert made.cost.model_dump() == {"runs": 32, "epochs": 32 * 4.0, "seconds": 32 * 1.5}
    rows = pd.read_csv(tmp_path / "config" / "tuned" / "base.csv")
    assert len(rows) == 32
    assert set(rows.fingerprint) == {cell.fingerprint for cell in expand.cells("tuning/base")}
    page = (ROOT / "docs" / "tuning.md").read_text()
    explained = {
        name for table in pages.tables(page) for row in table for name in re.findall("`(.*?)`", row[0])
    }
    assert {re.sub("^option/.*", "option/*", column) for column in rows} <= explained
    assert set(tuning_space.Tuning.model_fields) <= explained


def test_a_best_value_that_is_the_lowest_or_highest_of_all_trials_is_named_and_printed(
    files, choices, tmp_path, capsys, monkeypatch
):
    files(tuning={"space": {"lr": [0.1, 1.0], "warmup_epochs": [0, 2]}})
    made = choices(0)
    assert made.methods["ssgd"].at["digits/cnn/w2"].at_edge == {"lr": "lowest"}
    assert made.methods["top_k"].at["digits/cnn/w2"].at_edge == {}
    drawn = []
    monkeypatch.setattr(tuning, "write_figure", lambda tables, folder, *_: drawn.append(folder))
    tuned_command.tuned_main(Namespace(suite="base", results=tmp_path))
    said = capsys.readouterr()
    assert "ssgd: the best lr is the lowest that was tried: raise `trials`, or widen its range" in said.err
    assert "top_k: no trial has ended, so it keeps the suite's own recipe" in said.err
    assert "hylo: trial 0, accuracy 90.00 %: lr 0.1, warmup_epochs 1" in said.out
    assert drawn == [tmp_path / "figures" / "tuning" / "base"]


def test_a_suite_takes_what_was_chosen_for_its_methods(files, choices):
    choices()
    before = {cell.path: cell for cell in expand.cells("base")}
    files({"tuned": "base"})
    after, found = expand.cells("base"), tried()
    assert [cell.path for cell in after] == list(before)
    for cell in after:
        best = found[cell.method.label, 0 if cell.method.label == "top_k" else 2]
        assert values_of(cell.recipe) == values_of(best.recipe)
        assert cell.method.options == best.method.options
        same = {"recipe": cell.recipe, "preparer_recipe": cell.preparer_recipe, "method": cell.method}
        assert replace(before[cell.path], **same) == cell


def test_each_number_of_workers_takes_its_own_values_and_those_between_are_interpolated(files, choices):
    four = {"workers": 4, "nodes": 2}
    sizes = {"workers": [2, 3, four, 6], "recipe.batch": 12}
    files(sizes, {"workers": [2, four]})
    choices()
    files(sizes | {"tuned": "base"}, {"workers": [2, four]})
    found = {c.size_label: c for c in expand.cells("base") if c.method.label == "hylo"}
    rates = {size: cell.recipe.optimizer.lr for size, cell in found.items()}
    assert rates["w2"] == tried()["hylo", 2].recipe.optimizer.lr
    assert rates["w6"] == rates["w4n2"] == tried()["hylo", 1].recipe.optimizer.lr
    assert sorted(rates.values())[1] == rates["w3"] not in (rates["w2"], rates["w4n2"])
    note = about.note(suite.load("base"))
    assert "w3 lies between w2 and w4n2, on a logarithmic scale." in note
    assert "w6 has the values of w4n2, the nearest that was tuned." in note
    low, high = sorted((rates["w2"], rates["w4n2"]))
    assert f"lr {low:g} to {high:g}" in about.own_recipes(suite.load("base"))["hylo"]


def test_runs_on_all_numbers_of_workers_share_a_preparation_although_their_rates_differ(files, choices):
    wanted = {"methods": {"ssgd": None, "wnn": None}, "leave_out": []}
    both = {"workers": [2, {"workers": 4, "nodes": 2}]}
    files(wanted, both)
    choices()
    files(wanted | {"tuned": "base"}, both)
    found = [cell for cell in expand.cells("base") if cell.method.label == "wnn" and cell.repetition == 0]
    assert len({cell.recipe.optimizer.lr for cell in found}) == 2
    assert len({cell.preparation_fingerprint for cell in found}) == 1


def test_the_best_trials_run_again_and_the_best_of_all_their_runs_is_chosen(
    files, choices, tmp_path, monkeypatch, capsys
):
    """With 2 of 4 finalists, trial 2 is the best at first, and diverges in the finals; of SSGD, both do."""
    files(tuning={"finalists": 2})
    made_of, diverging = tuning.record_of, ("hylo-t02", "ssgd-t01", "ssgd-t02")

    def lost(folder, cell):
        made = made_of(folder, cell)
        again = cell.suite == "tuning/base/finals" and cell.method.label in diverging
        return made.model_copy(update={"status": "diverged"}) if again else made

    monkeypatch.setattr(tuning, "record_of", lost)
    made = choices().methods
    chosen = {label: of.at["digits/cnn/w2"].trial for label, of in made.items() if label != "hylo_mean"}
    assert chosen == {"hylo": 1, "ssgd": 3, "top_k": 0}
    assert made["ssgd"].at["digits/cnn/w2"].trials_ended == 2
    rows = pd.read_csv(tmp_path / "config" / "tuned" / "base.csv").query("method == 'ssgd'")
    runs = {trial: own.repetition.tolist() for trial, own in rows.groupby("trial")}
    assert runs == {0: [0, 1], 1: [0, 1, 2, 3], 2: [0, 1, 2, 3], 3: [0, 1]}
    seeds = [{c.seed for c in expand.cells(f"tuning/base{stage}")} for stage in ("", "/finals")]
    assert len(seeds[0] | seeds[1]) == 4
    # The finals cannot begin before all trials have ended, and a choice needs all of them.
    for name in ("tuning/base/finals", "tuning/base"):
        cell = next(c for c in expand.cells(name) if c.method.label == "hylo-t02")
        (record_folder(tmp_path, cell) / record.RUN).unlink()
        assert tuned_command.tuned_main(Namespace(suite="base", results=tmp_path)) == 1
        assert f"1 are missing, the first {name}/{cell.path}" in capsys.readouterr().err


def test_the_baseline_is_tuned_again_with_other_draws_and_seeds(files, choices):
    again = {"methods.ssgd": None, "methods.ssgd_again": {"use": "ssgd", "tuned_again": True}}
    files(again, {"finalists": 2})
    assert [stage.name for stage in suite.stages("base")] == [
        "tuning/base",
        "tuning/base/again",
        "tuning/base/finals",
        "tuning/base/again/finals",
    ]
    first, second = expand.cells("tuning/base"), expand.cells("tuning/base/again")
    assert {cell.method.label for cell in second} == {f"ssgd_again-t0{trial}" for trial in range(4)}
    assert not {cell.seed for cell in first} & {cell.seed for cell in second}
    rates = [{c.recipe.optimizer.lr for c in cells if c.method.use == "ssgd"} for cells in (first, second)]
    assert rates[0] & rates[1] == {0.1}
    assert choices().methods["ssgd_again"].at["digits/cnn/w2"].trial == 2
    files(again | {"tuned": "base"}, {"finalists": 2})
    found = {cell.method.label: cell.recipe.optimizer.lr for cell in expand.cells("base")}
    assert found["ssgd_again"] in rates[1] != found["ssgd"]
    assert baselines(suite.load("base")) == ["ssgd"]
    files(again | {"methods.ssgd_again": {"use": "ssgd", "tuned_again": True, "epochs": 9}})
    assert "tuned_again repeats the baseline ssgd: give it its module and keys" in message(suite.load, "base")


def drawn_on(workers, ended=True):
    """What is taken on so many workers, of a tuning on 4, where no trial may have ended, and 16."""
    tuning = tuning_space.Tuning.model_validate(tuning_base.TUNING | {"workers": [4, 16]})
    chosen = {
        "digits/cnn/w4": Drawn({"lr": 0.1, "warmup_epochs": 1.0}, {"k": 1}, ended),
        "digits/cnn/w16": Drawn({"lr": 0.4, "warmup_epochs": 2.0}, {"k": 9}),
    }
    return drawn_at(tuning, chosen, "digits", "cnn", Size(workers=workers))


@pytest.mark.parametrize(
    ("workers", "lr", "warmup", "k"),
    [(2, 0.1, 1, 1), (4, 0.1, 1, 1), (8, 0.2, 1.5, 1), (12, 0.3, 1.792, 9), (16, 0.4, 2, 9), (64, 0.4, 2, 9)],
)
def test_values_lie_on_a_line_over_the_logarithm_of_the_workers(workers, lr, warmup, k):
    assert drawn_on(workers) == Drawn({"lr": lr, "warmup_epochs": warmup}, {"k": k})


def test_workers_with_which_no_trial_has_ended_count_only_for_themselves():
    assert drawn_on(8, ended=False) == drawn_on(16)
    assert drawn_on(4, ended=False).values == drawn_on(4).values


def test_a_model_without_a_choice_is_refused_if_several_were_tuned(files, choices):
    models = {"cnn": None, "wide": {"use": "cnn"}, "other": {"use": "cnn"}}
    files({"models": models}, {"models": ["cnn", "wide"]})
    choices()
    files({"models": models, "tuned": "base"}, {"models": ["cnn", "wide"]})
    text = message(suite.load, "base")
    assert "has choices for the models cnn, wide, and none for other: tune them" in text
    files({"models": models}, {"models": ["cnn", "wide"], "choose": "pooled"})
    assert set(choices().methods["ssgd"].at) == {"everywhere"}
    files({"models": models, "tuned": "base"}, {"models": ["cnn", "wide"], "choose": "pooled"})
    assert {cell.model.label for cell in expand.cells("base")} == set(models)


OTHERS = """
recipe.batch: 16 => another recipe than this suite has (these differ: batch)
methods.other: {use: ssgd} => methods.other:
methods.hylo: {options: {conv_threshold: 32}} => made for another entry (these differ: options)
methods.hylo_mean: {use: hylo, options: {kappa: 1.0}} => made for another entry (these differ: epochs)
methods.ssgd: {recipe: {optimizer: {weight_decay: 0.3}}} => made for another entry (these differ: recipe)
methods.ssgd: {recipe: {optimizer: {lr: 0.3}}} => methods.ssgd: it sets lr, which
methods.ssgd: {optimizer: {lr: 0.3}} => made for another entry (these differ: optimizer)
"""


@pytest.mark.parametrize(
    ("changes", "tuning", "words"),
    [({}, {"trials": 5}, ["made from another"]), *((p.values[0], {}, p.values[1]) for p in cases(OTHERS))],
)
def test_choices_that_do_not_belong_to_a_suite_are_refused(files, choices, changes, tuning, words):
    choices()
    files({"tuned": "base"} | changes, tuning)
    text = message(suite.load, "base")
    require(text, words)
    assert "remove it here" in text or "snakemake --config tune=base" in text


WITH_PS_SGD = {"leave_out": [name for name in LEAVE_OUT if name != "ps_sgd"]}


def test_a_method_that_is_new_has_the_recipe_of_the_suite_until_it_is_tuned(files, choices):
    choices()
    files(WITH_PS_SGD | {"tuned": "base"})
    found = {cell.method.label: cell.recipe.optimizer.lr for cell in expand.cells("base")}
    assert found["ps_sgd"] == 0.1 != found["ssgd"]


def test_a_method_that_computes_what_ssgd_does_is_not_tuned_and_takes_its_values(files, choices):
    files(WITH_PS_SGD)
    assert "ps_sgd" not in {label for label, _ in tried()}
    made = choices().methods["ps_sgd"]
    assert (made.inherits, made.at) == ("ssgd", {})
    files(WITH_PS_SGD | {"tuned": "base"})
    found = {cell.method.label: cell.recipe for cell in expand.cells("base")}
    assert found["ps_sgd"] == found["ssgd"] != suite.load("base").recipe
    files(WITH_PS_SGD | {"tuned": "base", "methods.ps_sgd": {"recipe": {"optimizer": {"lr": 0.3}}}})
    assert "methods.ps_sgd: it sets lr, which" in message(suite.load, "base")


def test_another_choice_for_a_method_that_computes_what_ssgd_does_is_refused(files, choices, monkeypatch):
    files(WITH_PS_SGD)
    with monkeypatch.context() as patch:
        for module in (trials, tuning):
            patch.setattr(module, "heirs", lambda entries: {})
        choices()
    files(WITH_PS_SGD | {"tuned": "base"})
    text = message(suite.load, "base")
    assert "base.yaml has a choice of its own for it, although it computes what ssgd computes: start" in text


def test_choices_under_other_rules_or_edited_ones_are_refused(files, choices, monkeypatch):
    assert "base.yaml is missing: `snakemake --config tune=base` makes it" in message(tuned.read, "base")
    choices()
    files({"tuned": "base"})
    path = tuned.path_of("base")
    path.write_text(path.read_text().replace("lr: 0.1\n", "lr: 0.2\n"))
    assert "tuned/base.yaml was changed after it was written" in message(suite.load, "base")
    choices()
    record_of_trials = tuned.trials_path("base")
    record_of_trials.write_text(record_of_trials.read_text().replace("top_k", "top_j", 1))
    assert "tuned/base.csv was changed after it was written" in message(suite.load, "base")
    record_of_trials.unlink()
    assert "tuned/base.csv was changed after it was written, or is missing" in message(suite.load, "base")
    choices()
    monkeypatch.setattr(tuned, "RULES_VERSION", 99)
    assert "and this is version 99: start `snakemake --config tune=base` again" in message(suite.load, "base")
