"""A preparation is read as it was made, resumed only if it is whole, and shared by cells of its suite."""

import json
import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

from thinwire.base import digests
from thinwire.base.errors import UserError
from thinwire.cli import plugins_and_suites as list_cells
from thinwire.config import expand, suite
from thinwire.config.cell import cell_of
from thinwire.config.grid_subset import Subset
from thinwire.config.tuned import under
from thinwire.pipeline import inputs
from thinwire.pipeline.grid import read
from thinwire.records.result import BYTES, Cost, Traffic
from thinwire.report.tables.about import About
from thinwire.train import preparation, preparation_record
from thinwire.train.preparation_record import identity_of
from thinwire.train.result_files import data_folder, prepared_folder, preparing_folder

CELL = expand.cells("claims/mp2_digits")[0]
NOTHING = Cost(seconds=0.0, traffic=Traffic.sum([]))
SPENT = Cost(seconds=12.5, traffic=Traffic.sum([dict.fromkeys(BYTES, 7.0)]))


@pytest.fixture
def folder(tmp_path):
    """A preparation as its method left it: one file at the top, one in a folder; and what the engine left."""
    folder = tmp_path / "prepared"
    (folder / "models").mkdir(parents=True)
    (folder / "weights.bin").write_bytes(b"weights")
    (folder / "models/progress.json").write_text("{}")
    (folder / ".progress.json.123").touch()
    made = preparation_record.Prepared(
        status="done", identity={"seed": "1"}, files={}, cost=SPENT, provenance={"ended": "now"}
    )
    files = {name: digests.of_file(folder / name) for name in ("weights.bin", "models/progress.json")}
    content = made.model_copy(update={"files": files}).model_dump(mode="json")
    digests.write_json(folder / preparation_record.PREPARED, content)
    return folder


def edit(path, change):
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


CHANGES = {
    "a changed file": ("weights.bin", lambda p: p.write_bytes(b"weightz")),
    "a missing file": ("weights.bin", lambda p: p.unlink()),
    "a changed file in a folder": ("models/progress.json", lambda p: p.write_text("[]")),
    "one file too many": ("more.bin", lambda p: p.write_bytes(b"")),
    "one too many in a folder": ("models/more.bin", lambda p: p.write_bytes(b"")),
    "cost": ("prepared.json", lambda p: edit(p, lambda c: c["cost"].update(seconds=0.0))),
    "status": ("prepared.json", lambda p: edit(p, lambda c: c.update(status="failed", reason="x"))),
    "list of files": ("prepared.json", lambda p: edit(p, lambda c: c["files"].popitem())),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_prepared_is_read_and_what_was_changed_since_is_refused(folder, change):
    assert preparation_record.read(folder, {"seed": "1"}).cost == SPENT
    name, make = CHANGES[change]
    make(folder / name)
    with pytest.raises(UserError, match=rf"{name} .*: make it again with `thinwire prepare`$"):
        preparation_record.read(folder, {"seed": "1"})


@pytest.mark.parametrize("identity", [{"seed": "2"}, {}, {"seed": "1", "model": "3"}])
def test_what_was_prepared_for_something_else_is_refused(folder, identity):
    with pytest.raises(UserError, match=r"was prepared for another (seed|model): make it again"):
        preparation_record.read(folder, identity)


def progress(folder, identity):
    """Write the progress that an interrupted attempt leaves."""
    folder.mkdir(parents=True)
    content = {"identity": identity, "cost": SPENT.model_dump(mode="json")}
    digests.write_json(folder / "progress.json", content)
    (folder / "half.bin").write_bytes(b"half")


PROGRESS = {
    "whole": None,
    "edited": lambda p: edit(p, lambda c: c["cost"].update(seconds=1.0)),
    "without a key": lambda p: digests.write_json(p, {"identity": {"seed": "1"}}),
    "of wrong types": lambda p: digests.write_json(p, {"identity": "1", "cost": []}),
    "cut": lambda p: p.write_bytes(p.read_bytes()[:20]),
}


@pytest.mark.parametrize("change", PROGRESS)
def test_an_interrupted_preparation_is_resumed_unless_its_progress_is_damaged(tmp_path, capsys, change):
    folder, identity, make = tmp_path / "preparing", {"seed": "1"}, PROGRESS[change]
    progress(folder, identity)
    if make is not None:
        make(folder / "progress.json")
    assert preparation._resume(folder, identity) == (SPENT if make is None else NOTHING)
    assert (folder / "half.bin").exists() == (make is None)
    said = "" if make is None else "preparing from the beginning: .*\n"
    assert re.fullmatch(said, capsys.readouterr().out)


def test_what_a_buried_preparation_left_is_listed(tmp_path):
    """Otherwise the runs that need it would report an added file, and not why the preparation failed."""
    folder = preparing_folder(tmp_path, CELL)
    identity = preparation_record.identity_of(CELL, tmp_path)
    progress(folder, identity)
    preparation.publish_failure(CELL, tmp_path, "the process was killed")
    made = preparation_record.read(prepared_folder(tmp_path, CELL), identity)
    assert (made.status, made.cost, sorted(made.files)) == ("failed", SPENT, ["half.bin"])


# Two data sets, two repetitions, and MP2 in every way.
CONTENT = {
    "title": "reuse",
    "seed": 1,
    "repetitions": 2,
    "datasets": {"digits": None, "again": {"use": "digits"}},
    "models": {"lenet": {"options": {"padding": 2}}},
    "methods": {
        "ssgd": None,
        "mp2": None,
        "seed0": {"use": "mp2", "prepare_from": {"seed": 0}},
        "again": {"use": "mp2", "prepare_from": {"dataset": "again"}},
        "both": {"use": "mp2", "prepare_from": {"dataset": "again", "seed": 1}},
        "alone": {"use": "mp2", "options": {"predictor": "constant"}, "prepare_from": {"seed": 1}},
    },
    "workers": [2, 4],
    "recipe": {"epochs": 1, "batch": 8, "batch_per": "worker", "optimizer": {"name": "adam", "lr": 0.1}},
}


@pytest.fixture(autouse=True)
def _reuse(write_suite):
    write_suite(CONTENT, "reuse")


@pytest.fixture
def cells():
    return {cell.path: cell for cell in expand.cells("reuse")}


PREPARATIONS = {
    "digits/lenet/mp2/w2/seed1": "digits/lenet/mp2/seed1",
    "digits/lenet/seed0/w2/seed0": "digits/lenet/mp2/seed0",
    "digits/lenet/seed0/w2/seed1": "digits/lenet/mp2/seed0",
    "digits/lenet/seed0/w4/seed1": "digits/lenet/mp2/seed0",
    "digits/lenet/again/w2/seed1": "again/lenet/mp2/seed1",
    "digits/lenet/both/w2/seed0": "again/lenet/mp2/seed1",
    "again/lenet/both/w2/seed0": "again/lenet/mp2/seed1",
    # Nobody else has these options, so the first entry that has them names the folder.
    "digits/lenet/alone/w2/seed0": "digits/lenet/alone/seed1",
}


def test_entries_share_the_preparation_of_the_cell_that_they_name(cells, tmp_path):
    for path, shared in PREPARATIONS.items():
        cell = cells[path]
        assert cell.preparation == shared
        assert prepared_folder(tmp_path, cell) == tmp_path / "prepared/reuse" / shared
    owner = cells["digits/lenet/mp2/w2/seed0"]
    user = cells["digits/lenet/seed0/w4/seed1"]
    assert user.preparation_identity() == owner.preparation_identity()
    assert identity_of(user, tmp_path) == identity_of(owner, tmp_path)
    assert user.seed != owner.seed


def test_the_data_of_a_preparation_are_those_of_the_named_data_set(cells, tmp_path):
    for dataset in ("digits", "again"):
        folder = data_folder(tmp_path, dataset)
        folder.mkdir(parents=True)
        (folder / "manifest.json").write_text(dataset)
    user, owner = cells["digits/lenet/again/w2/seed0"], cells["again/lenet/mp2/w2/seed0"]
    assert identity_of(user, tmp_path) == identity_of(owner, tmp_path)
    other = cells["digits/lenet/mp2/w2/seed0"]
    assert identity_of(user, tmp_path)["data"] != identity_of(other, tmp_path)["data"]


def test_where_a_preparation_comes_from_is_part_of_the_fingerprint(cells):
    own, user = cells["digits/lenet/mp2/w2/seed1"], cells["digits/lenet/seed0/w2/seed1"]
    assert "prepare_from" not in own.identity()  # so that cells without the key keep their fingerprint
    assert user.fingerprint != replace(user, prepare_from=None).fingerprint
    broken = {**user.identity(), "prepare_from": {"data": None}}
    with pytest.raises(UserError, match="none that a suite can have"):
        cell_of(broken)
    # A tuning depends on it.
    entries = suite.load("reuse").methods
    assert "prepare_from" not in under("mp2", entries["mp2"]).model_dump()
    assert under("seed0", entries["seed0"]).model_dump()["prepare_from"]["seed"] == 0


def test_the_pipeline_makes_a_shared_preparation_once():
    grid = read(["reuse"], with_options=False)
    paths = {path.removeprefix("reuse/") for path in grid.preparations if "/ssgd/" not in path}
    expected = {f"{d}/lenet/mp2/seed{n}" for d in ("digits", "again") for n in (0, 1)}
    assert paths == expected | {f"{d}/lenet/alone/seed1" for d in ("digits", "again")}
    block = grid.blocks["reuse/digits/lenet/w2/seed1"]
    assert sorted(inputs.prepared_for_block(block)) == [
        "results/prepared/reuse/again/lenet/mp2/seed1/prepared.json",
        "results/prepared/reuse/digits/lenet/alone/seed1/prepared.json",
        "results/prepared/reuse/digits/lenet/mp2/seed0/prepared.json",
        "results/prepared/reuse/digits/lenet/mp2/seed1/prepared.json",
    ]
    # It is made for the cell that owns it.
    made_for = expand.preparation("reuse", "again/lenet/mp2/seed1")
    assert (made_for.dataset, made_for.repetition, made_for.prepare_from) == ("again", 1, None)


def test_a_subset_makes_what_it_needs_of_the_others():
    grid = read(["reuse"], False, Subset({"datasets": ("digits",), "methods": ("again",)}))
    assert {cell.dataset for cell in grid.cells.values()} == {"digits"}
    wildcards = SimpleNamespace(suite="reuse", preparation="again/lenet/mp2/seed0")
    assert grid.of_preparation(lambda cell: cell.dataset)(wildcards) == "again"
    assert [shape.dataset for shape in grid.shapes_of_preparations] == ["again"]
    assert grid.datasets.keys() == {"digits", "again"}


def test_people_see_whose_preparation_is_used(capsys, tmp_path):
    about = About.of(suite.load("reuse"))
    shown = {"seed0": "seed0", "again": "again", "both": "again, seed1", "alone": "seed1"}
    assert about.prepared_from == shown
    list_cells.cells_main(SimpleNamespace(suite="reuse", only=[], cost=None, results=tmp_path))
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert lines["digits/lenet/both/w2/seed0"].endswith("missing; prepared from again/lenet/mp2/seed1")
    assert lines["digits/lenet/mp2/w2/seed0"].endswith("missing")
