"""What W&B receives of a run."""

import dataclasses
import re
from collections import Counter

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
    # Names that are cut stay different.
    assert fields.bounded(label * 200 + "1") != fields.bounded(label * 200 + "2")


def test_options_are_resolved_and_can_be_grouped_by():
    run = made(CELL, curve(CELL, 2))
    config = fields.about(CELL, "inprocess")["config"] | fields.config(run)
    assert config["recipe"]["optimizer"]["lr"] == CELL.recipe.optimizer.lr
    assert config["method"] == {
        "label": "top_k",
        "use": "top_k",
        "options": CELL.method.options | {"density": 0.25},
    }
    assert (config["model"]["label"], config["data"]["label"]) == ("cnn", "digits")
    assert (config["workers"], config["nodes"], config["kind"]) == (8, 2, "inprocess")
    assert config["fingerprint"] == CELL.fingerprint
    assert config["git"]["revision"] == "0" * 40
    assert not any("." in key for key in config), "W&B groups by no such key"


def test_seconds_are_named_by_their_kind_and_shown_only_if_they_are_valid():
    rows = curve(CELL, 2)
    cost = Cost(seconds=77.125, traffic=Traffic.sum(rows))
    for kind, why, name in (
        ("inprocess", None, None),
        ("measured", "workers shared cores", None),
        ("measured", None, "measured_seconds"),
        ("emulated", None, "emulated_seconds"),
    ):
        run = made(CELL, rows, kind=kind, no_time_because=why, preparation=cost)
        seconds = fields.seconds_of(kind, why)
        shown = [
            fields.about(CELL, kind)["config"],
            fields.config(run),
            fields.summary(run),
            fields.history(rows[0], seconds),
        ]
        found = {key.split("/")[0] for part in shown for key in part if "second" in key}
        assert found == ({name} if name else set())
        assert (f"{name}/train" in fields.axes(seconds)) is (name is not None)
        assert (77.125 in fields.history(rows[0], seconds).values()) is (name is not None)


def test_a_row_has_every_axis_and_every_score():
    row = curve(CELL, 2)[1]
    shown = fields.history(row, "measured_seconds")
    assert set(fields.axes("measured_seconds")) <= set(shown)
    assert shown["bytes/payload_total"] == row["payload_push_bytes"] + row["payload_pull_bytes"]
    assert shown["bytes/between_nodes"] == row["between_nodes_bytes"]
    assert shown["measured_seconds/train"] == 154.25
    for name in ("step", "epoch", "samples", "lr", "train_loss", "test_accuracy_percent", "method/period"):
        assert shown[name] == row[name]


def test_a_group_is_a_cell_without_its_seed_and_only_of_runs_that_the_suite_has():
    grid = cells("demo")
    groups = Counter(map(fields.group, grid))
    assert groups[fields.group(CELL)] == 3 == max(groups.values())
    assert fields.group(CELL) == "demo/digits/cnn/top_k/w8n2"
    by_hand = dataclasses.replace(CELL, transport="processes", deviates=True)
    assert fields.group(by_hand) == "demo/digits/cnn/top_k/w8n2/measured"


def test_job_types_and_tags_say_what_a_run_is_for():
    described = fields.about(CELL, "inprocess")
    assert (described["job_type"], described["tags"]) == ("train", ["inprocess", "top_k", "demo", "rules 3"])
    trial = cells("tuning/demo")[0]
    assert fields.about(trial, "inprocess")["job_type"] == "tune"
    assert len(fields.tags("demo", "demo")) == 2, "W&B refuses a tag that is there twice"


def test_a_summary_has_the_last_score_and_the_best_one():
    rows = curve(CELL, 2)
    rows[0]["test_accuracy_percent"], rows[1]["test_accuracy_percent"] = 90.0, 80.0
    assert fields.summary(made(CELL, rows))["test_accuracy_percent"] == {"last": 80.0, "max": 90.0}
    ways = {metric.name: metric.summary for metric in fields.METRICS}
    assert ways["test_accuracy_percent"] == "last,max"
    assert ways["test_bits_per_character"] == ways["test_loss"] == "last,min"
    assert ways["lr"] is None


def test_a_run_without_a_result_says_why():
    run = made(CELL, [], status="failed", reason="it broke", result=None)
    assert fields.summary(run) == {"status": "failed", "reason": "it broke"}
