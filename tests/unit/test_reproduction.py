"""A cell that is trained again is compared with its record: same bits, same bytes, or where they part."""

import json
from argparse import Namespace
from dataclasses import replace

import pyarrow as pa
import pytest

from tests import sound
from thinwire.base import digests
from thinwire.base.errors import UserError
from thinwire.cli import submissions as command
from thinwire.config import expand
from thinwire.records.record import RUN
from thinwire.submissions import reproduction
from thinwire.submissions.reproduction import Facts, Verdict, first_difference, judge
from thinwire.train.result_files import record_folder
from thinwire.train.run_cell import Attempt

SSGD = expand.cells("demo")[0]
TINY = replace(SSGD, recipe=SSGD.recipe.model_copy(update={"epochs": 1, "batch": 600}))  # two steps


@pytest.fixture(scope="module")
def made(laid_out):
    """The folder of results with the record of a run."""
    Attempt(TINY, laid_out, 60.0).run(lambda trainer: None)
    return laid_out


def test_a_record_of_this_machine_is_reproduced_to_the_bit_and_leaves_nothing(made, capsys):
    folder, before = record_folder(made, TINY), sorted(made.rglob("*"))
    arguments = Namespace(record=folder / RUN, results=made, json=True)
    assert command.reproduce_main(arguments) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["verdict"], said["first"], said["others"]) == ("identical to the bit", None, [])
    assert said["repeated"]["fingerprint"] == TINY.fingerprint
    assert sorted(made.rglob("*")) == before


def test_a_record_with_other_numbers_is_different_and_the_exit_code_is_1(made, monkeypatch, capsys):
    here = reproduction.read(record_folder(made, TINY))
    there = here._replace(curve=changed(here.curve, "train_loss", 0, 9.0))
    calls = iter([there, here])
    monkeypatch.setattr(reproduction, "read", lambda folder: next(calls))
    arguments = Namespace(record=record_folder(made, TINY), results=made, json=False)
    assert command.reproduce_main(arguments) == 1
    assert "first at step 2, in train_loss of the evaluation: 9.0 there" in capsys.readouterr().out


def test_records_of_other_rules_and_without_data_are_refused(tmp_path):
    cell = sound.cells("demo")[0]
    folder = sound.publish(tmp_path, cell)
    with pytest.raises(UserError, match=r"the data of digits/.* are missing: `thinwire data digits"):
        reproduction.reproduce(folder, tmp_path)
    content = digests.read_json(folder / RUN)
    content["cell"]["rules"] = 2
    digests.write_json(folder / RUN, content)
    with pytest.raises(UserError, match=r"was made under version 2 of the rules"):
        reproduction.reproduce(folder, tmp_path)


THERE = Facts(
    fingerprint="f",
    status="done",
    trajectory_sha256="a",
    traffic_sha256="b",
    score=90.0,
    started="then",
    machine={"processor": "one", "torch": "2"},
)
SCORES = [89.0, 90.0, 91.0]  # sd 1, so that a repeated run lies within 4.303 sqrt(2) = 6.08


ELSEWHERE = {"trajectory_sha256": "c", "machine": {"processor": "other"}}


@pytest.mark.parametrize(
    ("changes", "scores", "expected"),
    [
        ({"started": "now", "machine": {"processor": "other"}}, [90.0], Verdict.IDENTICAL),
        (ELSEWHERE | {"score": 96.0}, SCORES, Verdict.INSIDE),
        (ELSEWHERE | {"score": 96.2}, SCORES, Verdict.DIFFERENT),
        (ELSEWHERE | {"score": 83.9}, SCORES, Verdict.DIFFERENT),
        (ELSEWHERE, [90.0], Verdict.DIFFERENT),
        (ELSEWHERE | {"machine": THERE.machine}, SCORES, Verdict.DIFFERENT),
        (ELSEWHERE | {"traffic_sha256": "c"}, SCORES, Verdict.DIFFERENT),
        (ELSEWHERE | {"status": "diverged"}, SCORES, Verdict.DIFFERENT),
    ],
)
def test_the_verdict(changes, scores, expected):
    assert judge(THERE, THERE.model_copy(update=changes), scores) is expected


def changed(table, column, row, value):
    values = table.column(column).to_pylist()
    values[row] = value
    return table.set_column(table.column_names.index(column), column, pa.array(values))


def with_provenance(made, **changes):
    return made._replace(run=made.run.model_copy(update={"provenance": made.run.provenance | changes}))


def test_where_two_runs_part_first(tmp_path):
    cell = sound.cells("demo")[0]
    there = reproduction.read(sound.publish(tmp_path, cell))
    loss = there._replace(curve=changed(there.curve, "test_loss", 1, 7.5))
    for here, where in (
        (with_provenance(there, data_sha256={"images": "x"}), "in the data"),
        (with_provenance(loss, initial_weights_sha256="x"), "at step 0, in the initial weights"),
        (loss, "at step 38, in test_loss of the evaluation: 1.25 there, 7.5 here"),
        (
            loss._replace(traffic=changed(there.traffic, "messages", 1, 1.0)),
            "at step 38, in messages of the traffic (world, mean, values): 38.0 there, 1.0 here",
        ),
        (
            there._replace(curve=there.curve.slice(0, 2)),
            "at step 57, where only the run there has the evaluation",
        ),
        (there._replace(run=there.run.model_copy(update={"status": "diverged"})), "at the end: done there"),
    ):
        assert first_difference(there, here).startswith(where)


def test_the_interval_is_of_the_seeds_beside_a_record(tmp_path):
    own = [cell for cell in sound.cells("demo") if cell.method.label == "ssgd" and cell.workers == 4]
    folders = [sound.publish(tmp_path, cell) for cell in own]
    other = next(cell for cell in sound.cells("demo") if cell.method.label == "top_k" and cell.workers == 4)
    scores = reproduction.scores_beside(folders[0], reproduction.read(folders[0]))
    assert len(scores) == len(own) > 1
    folder = sound.publish(tmp_path, other)
    assert len(reproduction.scores_beside(folder, reproduction.read(folder))) == 1
