"""What was made once is found again, and only for exactly what it was made from."""

from dataclasses import replace

import pytest

from thinwire.base import digests
from thinwire.base.errors import UserError
from thinwire.base.files import locked
from thinwire.config.expand import cells
from thinwire.launch import train_block
from thinwire.records import store
from thinwire.train.result_files import lock_file
from thinwire.train.reuse import keys as record_keys

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
    store.keep(tmp_path, "0123", made)
    (made / "run.json").write_text("changed")
    assert not store.fetch(tmp_path, "0124", tmp_path / "other")
    assert store.fetch(tmp_path, "0123", made)
    assert (made / "run.json").read_text() == "{}"
    store.forget(tmp_path, "0123")
    assert not store.fetch(tmp_path, "0123", made)


def test_nothing_is_put_where_another_process_works(results):
    (cell, *_), (key, *_) = DEMO, record_keys(DEMO, results)
    store.keep(results, key, results / "data/digits")
    with locked(lock_file(results, cell), "it"):
        assert not train_block._found(cell, key, results)
        assert store.fetch(results, key, results / "other"), "it is left where it is"
    assert not train_block._found(cell, key, results)
    assert not store.fetch(results, key, results / "other"), "it is no record"


def test_the_key_of_a_run_changes_with_its_options_and_data(results):
    keys = record_keys(DEMO, results)
    assert len({*keys}) == len(DEMO)
    other = [replace(DEMO[0], suite_seed=1), *DEMO[1:]]
    assert [a == b for a, b in zip(keys, record_keys(other, results))] == [False] + [True] * (len(DEMO) - 1)
    digests.write_json(results / "data/digits/manifest.json", {"images": 2})
    assert not {*keys} & {*record_keys(DEMO, results)}


def test_the_key_of_a_run_changes_with_its_code(results, monkeypatch):
    before = record_keys(DEMO, results)
    monkeypatch.setattr(
        "thinwire.train.reuse.sources", lambda cell: {"method": cell.method.use * (cell is DEMO[1])}
    )
    assert record_keys(DEMO, results)[1] != before[1]


def test_a_timed_run_is_found_only_with_its_whole_block(results):
    timed = [replace(cell, transport="processes") for cell in DEMO]
    keys = record_keys(timed, results)
    assert len({*keys}) == len(timed)
    assert not {*keys} & {*record_keys(timed[:-1], results)}
    assert not {*keys} & {*record_keys(timed[1:] + timed[:1], results)}


def test_without_the_data_set_there_is_no_key(tmp_path):
    with pytest.raises(UserError, match=r"manifest\.json is missing"):
        record_keys(DEMO, tmp_path)
