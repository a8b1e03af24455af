"""A task whose score is in bits and falls: every comparison, target and name turns with it."""

import math

import numpy as np
import pandas as pd
import pytest
import torch
from pydantic import ValidationError

from tests import frames, small, sound, summary
from thinwire.base import digests
from thinwire.base.learning import CLASSIFICATION, NEXT_CHARACTER
from thinwire.data.arrays import held_out
from thinwire.records import record
from thinwire.records.result import result_of
from thinwire.report import report_files, tuning
from thinwire.report import verdict_words as words
from thinwire.report.figures.scores import pareto
from thinwire.report.rows import quantities
from thinwire.report.rows.collect import with_engine_names
from thinwire.report.rows.comparisons import comparisons, with_comparisons
from thinwire.report.rows.quantities import summarise
from thinwire.report.rows.times import with_times
from thinwire.report.rows.to_target import to_target
from thinwire.report.tables import write
from thinwire.report.tables.about import About
from thinwire.train.evaluation import evaluate


def test_ssgd_on_four_workers_trains_a_text_as_one_worker_does():
    changes = {"data": small.texts(), "build_model": small.gpt, "epochs": 2, "batch": 12}
    one, four = (small.trainer(small.task(workers, **changes), "ssgd") for workers in (1, 4))
    for run in (one, four):
        run.train()
    for own, other in zip(one.workers[0].run.weights, four.workers[0].run.weights):
        torch.testing.assert_close(own, other, rtol=1e-10, atol=1e-12)
    bits, of_four = (run.curve[-1]["test_bits_per_character"] for run in (one, four))
    assert bits == pytest.approx(of_four)
    assert not any("accuracy" in name for name in one.curve[-1])


def test_bits_are_the_mean_surprise_of_all_characters():
    model, data = small.gpt().double(), small.texts()
    weights = [parameter.detach() for parameter in model.parameters()]
    found = evaluate(model, weights, [], data, torch.float64)
    shares = model(data.test_inputs.long()).softmax(-1).detach()
    bits = -shares.gather(-1, data.test_labels[..., None]).log2()
    assert found.score == pytest.approx(float(bits.mean()))
    assert found.loss == pytest.approx(found.score * math.log(2))


def test_a_tuning_on_text_holds_out_its_end():
    data = small.texts(train=20)
    held = held_out(data)
    assert torch.equal(held.test_inputs[:], data.train_inputs[18:])
    assert torch.equal(held.train_inputs[:], data.train_inputs[:18])


ROW = {"dataset": "text", "model": "gpt", "workers": 4, "nodes": 1}


def runs(**bits: list[float]) -> pd.DataFrame:
    """Runs of methods, each with its bits per character."""
    return pd.DataFrame(
        summary.run(method, i, accuracy=b, task="next_character", classes=84, **ROW)
        for method, own in bits.items()
        for i, b in enumerate(own)
    )


SSGD = [2.70, 2.71, 2.69, 2.72, 2.70]
SPREAD = [0.001, -0.001, 0.002, -0.002, 0.0]
FEWER, MORE, ALIKE = ([b + d + s for b, s in zip(SSGD, SPREAD)] for d in (-0.1, 0.1, 0))


def test_fewer_bits_are_better():
    found = comparisons(runs(ssgd=SSGD, fewer=FEWER, more=MORE, alike=ALIKE), "ssgd", NEXT_CHARACTER)
    assert list(found.gain_mean.round(3)) == [0.1, -0.1, 0.0]
    words = ["better by 0.100 bits", "worse by 0.100 bits", "no effect of 0.02 bits or more"]
    assert list(found.words) == words
    assert set(found.margin) == {0.02}


def test_a_target_in_bits_is_reached_from_above():
    made = runs(ssgd=[2.0, 2.0], slow=[2.2, 2.2]).assign(epochs=4, batch=64, batch_per="run")
    steps = {"ssgd": (3.0, 2.5, 2.02, 2.0), "slow": (3.0, 2.6, 2.3, 2.1)}
    curves = pd.DataFrame(
        frames.evaluation(method, r, i + 1, b, 1.0, step=10 * (i + 1), **ROW)
        for method, bits in steps.items()
        for r in range(2)
        for i, b in enumerate(bits)
    )
    found = to_target(made, curves, "ssgd", NEXT_CHARACTER)
    own = found[found.method == "ssgd"]
    assert list(own.target_score) == pytest.approx([2 / 0.95, 2 / 0.98, 2 / 0.99])
    assert list(own.steps_median) == [30, 30, 30]
    assert list(found[found.method == "slow"].steps_median) == [40, np.inf, np.inf]


def test_guessing_costs_as_many_bits_as_there_are_for_all_characters():
    made = runs(ssgd=[math.log2(84), math.log2(84) - 0.01])
    assert list(quantities.at_chance_level(made, NEXT_CHARACTER)) == [1, 0]


def test_the_pareto_front_has_the_fewest_bits():
    ends = pd.DataFrame({"bytes": [1, 2, 3], "score": [3.0, 3.1, 2.5]}, index=["a", "worse", "c"])
    assert pareto(ends, "bytes", NEXT_CHARACTER) == ["a", "c"]


def test_the_best_trial_has_the_fewest_bits():
    rows = [("m", trial, bits, 1, "done") for trial, bits in enumerate((3.0, 2.5, 2.8))]
    table = tuning.trials(
        pd.DataFrame(rows, columns=["method", "trial", "tuned_score", "payload_bytes", "status"])
    )
    assert tuning.best(table, NEXT_CHARACTER).trial == 1
    assert list(tuning.best_so_far(table, NEXT_CHARACTER).best_score) == [3.0, 2.5, 2.5]


def test_no_table_of_a_text_says_accuracy(tmp_path):
    frame = runs(ssgd=SSGD, fewer=FEWER)
    compared = comparisons(frame, "ssgd", NEXT_CHARACTER)
    table = with_times(with_comparisons(summarise(frame, ["ssgd"], NEXT_CHARACTER), compared), pd.DataFrame())
    noise = words.on_noise(0.01, NEXT_CHARACTER.unit, "ssgd", "ssgd_again")
    write.write(table, About("Title", "test", ("ssgd",), NEXT_CHARACTER, noise=noise), tmp_path)
    report_files.write_table(compared, tmp_path / "comparisons.csv", NEXT_CHARACTER)
    for path in tmp_path.iterdir():
        assert not {"accuracy", "accuracies", "points", "score"} & set(path.read_text().lower().split()), path
        assert "accurac" not in path.read_text().lower(), path
    text = " ".join((tmp_path / "summary.md").read_text().split())
    assert "| **2.604 ± 0.010 (5)** " in text, text
    assert "Noise floor of tuning: 0.010 bits" in text, text
    read = with_engine_names(pd.read_csv(tmp_path / "comparisons.csv"), NEXT_CHARACTER)
    assert list(read.columns) == list(compared.columns)


def curve(*bits: float) -> list[dict]:
    """Evaluations with these bits."""
    cell = sound.cells("demo")[0]
    rows = sound.curve(cell)[: len(bits)]
    for row, own in zip(rows, bits):
        del row["test_accuracy_percent"]
        row |= {"test_bits_per_character": own, "test_loss": own * math.log(2)}
    return rows


def test_a_record_of_a_text_has_bits_and_no_accuracy(tmp_path):
    cell, rows = sound.cells("demo")[0], curve(3.0, 2.4, 2.5)
    result = result_of(rows, NEXT_CHARACTER)
    assert (result.test_bits_per_character, result.best_test_bits_per_character) == (2.5, 2.4)
    made = sound.made(cell, rows, result=result, task="next_character", evaluated_characters=100)
    record.write_aside(tmp_path, made, rows, [])
    content = (tmp_path / record.RUN).read_text()
    assert "accuracy" not in content
    assert record.read(tmp_path / record.RUN).result == result
    assert "accuracy" not in " ".join(pd.read_parquet(tmp_path / record.CURVE).columns)
    assert made.shown_score() == "2.500 bits per character"
    with pytest.raises(ValidationError, match="classification must have an accuracy"):
        sound.made(cell, rows, result=result)
    with pytest.raises(ValidationError, match="a result of next_character has no test_accuracy_percent"):
        sound.made(cell, sound.curve(cell), task="next_character")


def test_a_loss_that_is_not_finite_leaves_no_bits():
    rows = curve(3.0, math.inf)
    result = result_of(rows, NEXT_CHARACTER)
    bits = result.test_bits_per_character, result.best_test_bits_per_character
    assert (*bits, result.test_loss) == (None, 3, None)


def test_a_record_of_images_says_nothing_of_texts(tmp_path):
    cell = sound.cells("demo")[0]
    rows = sound.curve(cell)
    record.write_aside(tmp_path, sound.made(cell, rows), rows, [])
    content = digests.read_json(tmp_path / record.RUN)
    assert not {"task", "evaluated_characters"} & content.keys()
    assert not [name for name in content["result"] if "bits" in name]
    assert record.Record.model_validate(content).learns is CLASSIFICATION
