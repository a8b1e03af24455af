"""What W&B receives of a run."""

import dataclasses
import re

import pytest

from tests.sound import curve, made
from thinwire.config.expand import cells
from thinwire.publish.wandb import fields
from thinwire.records.result import Cost, Traffic

CELL = next(cell for cell in cells("demo") if cell.path == "digits/cnn/top_k/w8n2/seed1")


def test_the_id_is_another_one_when_an_option_changes():
    other = dataclasses.replace(CELL, suite_seed=CELL.suite_seed + 1)
    assert fields.run_id(other) != fields.run_id(CELL)
    assert fields.run_name(other) == fields.run_name(CELL)


@pytest.mark.parametrize("label", ["m" * 200, "a b/c:d#e?f%g", "größe"])
def test_names_stay_within_the_limits(label):
    odd = dataclasses.replace(CELL, method=dataclasses.replace(CELL.method, label=label))
    described = fields.about(odd, "inprocess")
    assert all(len(described[key]) <= 128 for key in ("project", "id", "name", "group"))
    assert all(0 < len(text) <= 64 for text in (described["job_type"], *described["tags"]))
    assert re.fullmatch(r"[A-Za-z0-9_.-]+", described["id"])
    assert described["id"].endswith(odd.fingerprint[:8])


def test_names_that_are_cut_stay_different():
    one, two = fields.bounded("x" * 200 + "1"), fields.bounded("x" * 200 + "2")
    assert len(one) == len(two) == 128
    assert one != two


def test_options_are_flat_and_resolved():
    run = made(CELL, curve(CELL, 2))
    config = fields.about(CELL, "inprocess")["config"] | fields.config(run)
    assert config["recipe.optimizer.lr"] == CELL.recipe.optimizer.lr
    assert config["method.options.density"] == 0.25
    assert (config["workers"], config["nodes"], config["kind"]) == (8, 2, "inprocess")
    assert config["fingerprint"] == CELL.fingerprint
    assert config["git.revision"] == "0" * 40
    assert not any(isinstance(value, dict) for value in config.values())


def test_no_seconds_of_an_in_process_run_are_shown():
    rows = curve(CELL, 2)
    cost = Cost(seconds=77.125, traffic=Traffic.sum(rows))
    for kind, timed in (("inprocess", False), ("measured", True)):
        run = made(CELL, rows, kind=kind, preparation=cost)
        shown = [
            fields.about(CELL, kind)["config"],
            fields.config(run),
            fields.summary(run),
            fields.history(rows[0], kind),
        ]
        assert any("second" in key for part in shown for key in part) is timed
        assert ("seconds/train" in fields.axes(kind)) is timed
        assert (77.125 in fields.history(rows[0], kind).values()) is timed


def test_a_row_has_every_axis_and_every_score():
    row = curve(CELL, 2)[1]
    shown = fields.history(row, "measured")
    assert set(fields.axes("measured")) <= set(shown)
    assert shown["bytes/payload_total"] == row["payload_push_bytes"] + row["payload_pull_bytes"]
    assert shown["bytes/between_nodes"] == row["between_nodes_bytes"]
    assert shown["seconds/train"] == 154.25
    for name in ("step", "epoch", "samples", "lr", "train_loss", "test_accuracy_percent", "method/period"):
        assert shown[name] == row[name]


def test_a_run_without_a_result_says_why():
    run = made(CELL, [], status="failed", reason="it broke", result=None)
    assert fields.summary(run) == {"status": "failed", "reason": "it broke"}
