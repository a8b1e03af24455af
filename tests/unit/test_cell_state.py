"""What is there of a cell, and why a record does not hold any more."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests import commands, sound
from tests.sound import publish_current
from thinwire import plugins
from thinwire.base import digests
from thinwire.base.errors import UserError
from thinwire.base.files import write_text
from thinwire.cli.run import settled
from thinwire.config.cell import engine_files
from thinwire.data.dataset import MANIFEST
from thinwire.launch.retry import finished
from thinwire.launch.train_block import key_alone
from thinwire.pipeline.overview import jobs, overview
from thinwire.records import record
from thinwire.records.result import Cost, Traffic
from thinwire.train import preparation_record
from thinwire.train.preparation_record import PREPARED
from thinwire.train.record_check import CellState, cell_state, cell_states, counts, set_aside
from thinwire.train.result_files import data_folder, partial_folder, prepared_folder, record_folder

DEMO = sound.cells("demo")
CELL = DEMO[0]
PREPARING = next(cell for cell in sound.cells("claims/mp2_digits") if cell.method.use == "wnn")


@pytest.fixture
def results(tmp_path):
    write_text(data_folder(tmp_path, CELL.dataset) / MANIFEST, "{}")
    return tmp_path


def with_epochs(cell, epochs):
    recipe = cell.recipe.model_copy(update={"epochs": epochs})
    return replace(cell, recipe=recipe, preparer_recipe=recipe)


def test_a_record_is_missing_and_then_there(results):
    assert cell_state(CELL, results) == CellState("missing")
    publish_current(results, CELL)
    assert cell_state(CELL, results) == CellState("done")
    assert cell_state(CELL, results).holds
    publish_current(results, DEMO[1], status="failed", reason="out of\nluck")
    assert str(cell_state(DEMO[1], results)) == "failed: out of luck"


def test_the_options_that_differ_are_named_once(results):
    others = {
        "recipe.epochs": with_epochs(CELL, 77),
        "method.options.gradients": replace(CELL, method=replace(CELL.method, options={"gradients": "none"})),
        "nccl": replace(CELL, nccl="timing"),  # so no table has times of two modes
    }
    for option, other in others.items():
        publish_current(results, other)
        state = cell_state(CELL, results)
        assert str(state) == f"out of date: made with other options than the suite has now ({option})"
        assert not state.holds
    sound.publish(results, CELL, fingerprint="0123")
    assert "(fingerprint)" in str(cell_state(CELL, results))


@pytest.mark.parametrize(
    ("kind", "name", "files"),
    [
        ("method", "top_k", ["codecs/select.py", "codecs/sparse.py"]),
        ("method", "ps_sgd", ["api/servers.py"]),
        ("method", "local_sgd", ["optim/adacomm.py"]),
        ("model", "cnn", ["api/model.py"]),
        ("dataset", "imagenette", ["data/image_folder.py", "data/image_tree.py"]),
        ("dataset", "austen", ["data/text.py"]),  # which has the vocabulary
    ],
)
def test_what_a_plug_in_imports_of_the_engine_belongs_to_it_but_for_the_loop(kind, name, files):
    imported = {path.relative_to(plugins.ROOT / "thinwire") for path in engine_files(plugins.get(kind, name))}
    assert set(map(Path, files)) <= imported
    of_the_loop = ("train/worker.py", "api/channel.py", "api/run.py", "base/errors.py", "data/__init__.py")
    assert imported.isdisjoint(map(Path, of_the_loop))


def test_another_file_of_the_engine_is_noticed(results, monkeypatch):
    publish_current(results, CELL)
    of_file = digests.of_file
    changed = "precision.py"
    monkeypatch.setattr(digests, "of_file", lambda path, *_: "0" if path.name == changed else of_file(path))
    assert cell_state(CELL, results).reason == "made with another file of the engine than there is now"


def test_other_data_are_noticed_and_missing_data_are_not(results):
    publish_current(results, CELL)
    manifest = data_folder(results, CELL.dataset) / MANIFEST
    manifest.write_text("[]")
    assert cell_state(CELL, results).reason == "made with other data than there are now"
    manifest.unlink()
    assert cell_state(CELL, results).holds


def test_another_preparation_is_noticed(results, monkeypatch):
    prepared = prepared_folder(results, PREPARING) / PREPARED
    prepared.parent.mkdir(parents=True)
    identity = preparation_record.identity_of(PREPARING, results)
    digests.write_json(prepared, {"identity": identity})
    cost = Cost(seconds=1.0, traffic=Traffic.sum([]))
    publish_current(results, PREPARING, {"prepared_sha256": digests.of_file(prepared)}, preparation=cost)
    assert cell_state(PREPARING, results).holds

    changed = {**identity, "file of the model lenet": "0"}
    monkeypatch.setattr("thinwire.train.record_check.identity_of", lambda *_: changed)
    reason = "made with a preparation that is out of date (another file of the model lenet)"
    assert cell_state(PREPARING, results).reason == reason
    digests.write_json(prepared, {"identity": changed})
    assert cell_state(PREPARING, results).reason == "made with another preparation than there is now"


def test_a_record_that_breaks_an_invariant_is_made_again(results, capsys):
    backwards = {"started": "2026-11-24T12:00:00+00:00", "ended": "2026-11-24T11:00:00+00:00"}
    folder = publish_current(results, CELL, backwards)
    key = key_alone(CELL, results)
    record.keep(results, key, folder)
    assert "(invariant: times)" in cell_state(CELL, results).reason
    assert settled(CELL, results, again=False) is None
    assert "the record is made again" in capsys.readouterr().out
    assert not record.fetch(results, key, folder)
    folder.rename(partial_folder(results, CELL))
    assert not finished(CELL, results)


def test_a_run_that_deviates_has_a_place_of_its_own(results):
    deviating = replace(CELL, transport="processes", deviates=True)
    publish_current(results, CELL)
    assert cell_state(deviating, results) == CellState("missing")
    publish_current(results, deviating, kind="measured")
    assert record_folder(results, deviating) == results / "by_hand/runs/demo" / CELL.path
    assert cell_state(deviating, results).holds
    assert cell_state(CELL, results).holds
    # The place is no option: the record says all that decides the result.
    assert deviating.fingerprint == replace(CELL, transport="processes").fingerprint


def test_a_timed_cell_is_trained_again_with_its_block_only(results, capsys):
    timed = replace(CELL, transport="processes")
    publish_current(results, timed, kind="measured")
    assert settled(timed, results, again=False) == 0
    command = f"`thinwire train demo {CELL.block} --again --results {results}`"
    assert f"{command} trains all methods of its block again" in capsys.readouterr().out
    with pytest.raises(UserError, match=f"was timed side by side with other methods: {command}"):
        settled(timed, results, again=True)
    # Of ranks that a launcher has started one speaks.
    assert settled(timed, results, again=False, leads=False) == 0
    assert capsys.readouterr().out == ""


def test_what_is_set_aside_is_kept(results):
    for number in (1, 2):
        folder = publish_current(results, CELL)
        content = (folder / record.RUN).read_text()
        moved = set_aside(CELL, results)
        assert moved == results / "set_aside/demo" / CELL.path / str(number)
        assert (moved / record.RUN).read_text() == content
        assert cell_state(CELL, results).word == "missing"


def test_the_overview_counts_and_names_the_first_of_each_reason(results):
    for cell in (*DEMO[:4], *(with_epochs(cell, 77) for cell in DEMO[4:9])):
        publish_current(results, cell)
    states = cell_states(DEMO[:11], results)
    assert counts(states) == "11 cells: 4 done, 5 out of date, 2 missing"
    assert overview(DEMO[:11], states) == [
        counts(states),
        "out of date: made with other options than the suite has now (recipe.epochs): "
        f"{DEMO[4].path}, {DEMO[5].path}, {DEMO[6].path} and 2 more",
        f"missing: {DEMO[9].path}, {DEMO[10].path}",
    ]


def test_the_overview_says_what_the_jobs_of_each_kind_ask_of_slurm():
    prepared = [cell for cell in sound.cells("claims/mp2_digits") if cell.repetition < 2]
    assert jobs(prepared, "60") == [
        "train, 2 jobs: 1 node with 1 rank and 0 GPUs, 60 minutes",
        "prepare, 10 jobs at most: 1 node with 1 rank and 0 GPUs, 60 minutes",
    ]
    on_gpus = [replace(cell, device="cuda", transport="processes", workers=8, nodes=2) for cell in DEMO]
    (line,) = jobs(on_gpus, "360 * attempt")
    assert line.endswith("jobs: 2 nodes with 4 ranks and 4 GPUs each, 360 * attempt minutes")


def test_what_need_not_train_needs_no_torch():
    """Some list cells, others refuse bad input, and `train` waits for the ranks of Slurm."""
    names = ("cli.plugins_and_suites", "cli.run", "pipeline.run_display", "pipeline.overview")
    modules = ", ".join(f"thinwire.{name}" for name in names)
    answer = commands.python("-c", f"import sys, {modules}; print('torch' in sys.modules)")
    assert answer.stdout == "False\n", answer.stderr
