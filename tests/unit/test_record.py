"""A run's record is whole, has its provenance, and is found again for what it was made from."""

import json
import subprocess
from dataclasses import replace

import pandas as pd
import pytest
import torch

from tests import sound
from thinwire.base import digests
from thinwire.base.errors import UserError
from thinwire.base.files import locked
from thinwire.base.learning import CLASSIFICATION
from thinwire.config.expand import cells
from thinwire.launch import train_block
from thinwire.launch.train_block import record_keys
from thinwire.records import provenance, record
from thinwire.records.result import result_of
from thinwire.train.result_files import lock_file

CELL = sound.cells("demo")[0]
CURVE = sound.curve(CELL)


def made(**changes):
    return sound.made(CELL, CURVE, **changes)


@pytest.fixture
def places(tmp_path):
    """The folder in which a record is written, and the one in which it is published."""
    (tmp_path / "scratch").mkdir()
    return tmp_path / "scratch", tmp_path / "run"


@pytest.fixture
def folder(places):
    """That of a published record."""
    sound.write(*places, made(), CURVE, [])
    return places[1]


def test_what_was_written_is_read_back(folder):
    run = record.read(folder / record.RUN)
    tables = ["curve.parquet", "log.txt", "traffic.parquet"]
    assert sorted(run.files) == tables
    assert run.model_copy(update={"files": {}, "sha256": None}) == made()
    curve = pd.read_parquet(folder / record.CURVE)
    assert curve.to_dict("records") == CURVE
    assert sorted(p.name for p in folder.iterdir()) == sorted([*tables, "run.json"])


def test_the_result_is_that_of_the_end_and_not_the_best():
    first, second, best = CURVE
    result = result_of([second, best, first], CLASSIFICATION)
    assert result.test_accuracy_percent == first["test_accuracy_percent"]
    assert result.best_test_accuracy_percent == best["test_accuracy_percent"] > result.test_accuracy_percent
    assert result.steps == first["step"]
    assert result.traffic.payload_push_bytes == first["payload_push_bytes"]


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"status": "done", "result": None}, "must have a result"),
        ({"status": "failed"}, "must give a reason"),
        ({"kind": "guessed"}, "kind"),
        ({"loss": 1}, "loss"),
        ({"interruptions": 0.5}, "interruptions"),
    ],
)
def test_a_record_that_is_not_sound_is_refused(changes, word):
    with pytest.raises(ValueError, match=word):
        made(**changes)


def test_the_log_may_grow_until_it_is_published_and_then_changes_nothing_that_is(places):
    """A rank that crashes on its way out still has the log open."""
    scratch, folder = places
    with (scratch / record.LOG).open("a", buffering=1) as late:
        record.write_aside(scratch, made(), CURVE, [])
        late.write("before\n")
        record.read(scratch / record.RUN)
        record.put_in_place(scratch, folder)
        late.write("after\n")
    assert (folder / record.LOG).read_text() == "before\n"
    record.read(folder / record.RUN)


def test_what_was_changed_since_it_was_written_aside_is_not_published(places):
    scratch, folder = places
    (scratch / record.CHECKPOINTS).mkdir()
    record.write_aside(scratch, made(), CURVE, [])
    (scratch / record.CURVE).write_bytes(b"")
    with pytest.raises(UserError, match=r"curve\.parquet is not the file that was written"):
        record.put_in_place(scratch, folder)
    assert not folder.exists()
    assert (scratch / record.CHECKPOINTS).is_dir()


def test_a_publication_that_was_cut_short_is_done_again(places):
    """The process died after the last write and before the rename."""
    scratch, folder = places
    sound.write(scratch, folder, made(), CURVE, [])
    before = (folder / record.RUN).read_bytes()
    folder.rename(scratch)
    record.put_in_place(scratch, folder)
    assert (folder / record.RUN).read_bytes() == before


def test_a_record_of_another_version_is_refused(folder):
    path = folder / record.RUN
    digests.write_json(path, digests.read_json(path) | {"schema_version": record.SCHEMA_VERSION + 1})
    with pytest.raises(UserError, match=r"not a sound run record \(schema_version: .*\): start it again"):
        record.read(path)


def test_provenance_holds_what_decides_a_result_and_no_secret(monkeypatch):
    kept = {"OMP_NUM_THREADS": "3", "NCCL_ALGO": "Tree", "TORCH_NCCL_BLOCKING_WAIT": "1"}
    for name, value in (kept | {"WANDB_API_KEY": "canary-in-a-coal-mine"}).items():
        monkeypatch.setenv(name, value)
    content = provenance.provenance(torch.device("cpu"), {})
    assert "canary" not in json.dumps(content)
    assert kept.items() <= content["environment"].items()
    assert content["packages"]["torch"]
    assert content["hardware"]["cores"] >= 1


def test_what_an_interrupted_uninstall_has_left_is_no_package(monkeypatch, tmp_path):
    (tmp_path / "gone-1.0.dist-info").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    assert provenance.packages.__wrapped__() == provenance.packages()


def test_provenance_tells_a_changed_checkout_from_a_clean_one(tmp_path, monkeypatch):
    def git(*arguments):
        command = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
        subprocess.run(command, check=True, capture_output=True)

    monkeypatch.setattr(provenance, "ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert provenance.git_state() == {"revision": None, "changes_sha256": None}
    git("init")
    (tmp_path / "a").write_text("1")
    git("add", "a")
    git("commit", "-m", "one")
    clean = provenance.git_state()
    assert len(clean["revision"]) == 40
    assert clean["changes_sha256"] is None
    (tmp_path / "a").write_bytes("\N{LATIN SMALL LETTER E WITH ACUTE}".encode("latin-1"))
    changed = provenance.git_state()
    assert changed["revision"] == clean["revision"]
    assert len(changed["changes_sha256"]) == 64


DEMO = [cell for cell in cells("demo") if cell.block == cells("demo")[0].block]


@pytest.fixture
def results(tmp_path):
    folder = tmp_path / "data/digits"
    folder.mkdir(parents=True)
    digests.write_json(folder / "manifest.json", {"images": 1})
    return tmp_path


def test_a_copy_is_found_under_its_key_only(tmp_path):
    made = tmp_path / "made"
    made.mkdir()
    (made / "run.json").write_text("{}")
    record.keep(tmp_path, "0123", made)
    (made / "run.json").write_text("changed")
    assert not record.fetch(tmp_path, "0124", tmp_path / "other")
    assert record.fetch(tmp_path, "0123", made)
    assert (made / "run.json").read_text() == "{}"
    record.forget(tmp_path, "0123")
    assert not record.fetch(tmp_path, "0123", made)


def test_nothing_is_put_where_another_process_works(results):
    (cell, *_), (key, *_) = DEMO, record_keys(DEMO, results)
    record.keep(results, key, results / "data/digits")
    with locked(lock_file(results, cell), "it"):
        assert not train_block._found(cell, key, results)
        assert record.fetch(results, key, results / "other"), "it is left where it is"
    assert not train_block._found(cell, key, results)
    assert not record.fetch(results, key, results / "other"), "it is no record"


def test_the_key_of_a_run_changes_with_its_options_data_and_code(results, monkeypatch):
    keys = record_keys(DEMO, results)
    assert len({*keys}) == len(DEMO)
    other = [replace(DEMO[0], suite_seed=1), *DEMO[1:]]
    assert [a == b for a, b in zip(keys, record_keys(other, results))] == [False] + [True] * (len(DEMO) - 1)
    digests.write_json(results / "data/digits/manifest.json", {"images": 2})
    assert not {*keys} & {*record_keys(DEMO, results)}
    before = record_keys(DEMO, results)
    monkeypatch.setattr(
        "thinwire.launch.train_block.sources", lambda cell: {"method": cell.method.use * (cell is DEMO[1])}
    )
    assert record_keys(DEMO, results)[1] != before[1]


def test_a_timed_run_is_found_only_with_its_whole_block(results):
    timed = [replace(cell, transport="processes") for cell in DEMO]
    keys = record_keys(timed, results)
    assert len({*keys}) == len(timed)
    assert not {*keys} & {*record_keys(timed[:-1], results)}
    assert not {*keys} & {*record_keys(timed[1:] + timed[:1], results)}


def test_without_the_data_set_there_is_no_key(tmp_path):
    with pytest.raises(
        UserError, match=r"^there is no data set in .*: prepare it with `thinwire data digits"
    ):
        record_keys(DEMO, tmp_path)
