"""A preparation is read as it was made, and an interrupted one is resumed only if it is whole."""

import json

import pytest

from thinwire.base import digests
from thinwire.base.errors import UserError
from thinwire.config.expand import cells
from thinwire.records import record
from thinwire.train import preparation, preparation_record
from thinwire.train.result_files import prepared_folder, preparing_folder

CELL = cells("claims/mp2_digits")[0]
NOTHING = record.Cost(seconds=0.0, traffic=record.Traffic.sum([]))
SPENT = record.Cost(seconds=12.5, traffic=record.Traffic.sum([dict.fromkeys(record.BYTES, 7.0)]))


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


def test_what_was_prepared_is_read(folder):
    assert preparation_record.read(folder, {"seed": "1"}).cost == SPENT


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_changed_since_is_refused(folder, change):
    name, make = CHANGES[change]
    make(folder / name)
    with pytest.raises(UserError, match=rf"{name} .*: make it again with `thinwire prepare`$"):
        preparation_record.read(folder, {"seed": "1"})


@pytest.mark.parametrize("identity", [{"seed": "2"}, {}, {"seed": "1", "model": "3"}])
def test_what_was_prepared_for_something_else_is_refused(folder, identity):
    with pytest.raises(UserError, match=r"was prepared for another (seed|model): make it again"):
        preparation_record.read(folder, identity)


def progress(folder):
    """The progress that an interrupted attempt leaves."""
    folder.mkdir()
    identity = {"seed": "1"}
    content = {"identity": identity, "cost": SPENT.model_dump(mode="json")}
    digests.write_json(folder / "progress.json", content)
    (folder / "half.bin").write_bytes(b"half")
    return identity


def test_an_interrupted_preparation_is_resumed(tmp_path, capsys):
    folder = tmp_path / "preparing"
    identity = progress(folder)
    assert preparation._resume(folder, identity) == SPENT
    assert (folder / "half.bin").exists()
    assert capsys.readouterr().out == ""


PROGRESS = {
    "edited": lambda p: edit(p, lambda c: c["cost"].update(seconds=1.0)),
    "without a key": lambda p: digests.write_json(p, {"identity": {"seed": "1"}}),
    "of wrong types": lambda p: digests.write_json(p, {"identity": "1", "cost": []}),
    "cut": lambda p: p.write_bytes(p.read_bytes()[:20]),
}


@pytest.mark.parametrize("change", PROGRESS)
def test_a_preparation_with_damaged_progress_starts_again(tmp_path, capsys, change):
    folder = tmp_path / "preparing"
    identity = progress(folder)
    PROGRESS[change](folder / "progress.json")
    assert preparation._resume(folder, identity) == NOTHING
    assert not (folder / "half.bin").exists()
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("preparing from the beginning: ")


def test_what_a_buried_preparation_left_is_listed(tmp_path):
    """Otherwise the runs that need it would report an added file, and not why the preparation failed."""
    folder = preparing_folder(tmp_path, CELL)
    folder.mkdir(parents=True)
    identity = preparation_record.identity_of(CELL, tmp_path)
    content = {"identity": identity, "cost": SPENT.model_dump(mode="json")}
    digests.write_json(folder / "progress.json", content)
    (folder / "half.bin").write_bytes(b"half")
    preparation.publish_failure(CELL, tmp_path, "the process was killed")
    made = preparation_record.read(prepared_folder(tmp_path, CELL), identity)
    assert (made.status, made.cost, sorted(made.files)) == ("failed", SPENT, ["half.bin"])
