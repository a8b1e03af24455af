"""Each change of a record whose digests are made anew breaks an invariant, which is named."""

import json
import shutil
import time
from dataclasses import replace
from datetime import datetime
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests import project, sound
from tests.tracking.records import made as made_record
from thinwire import digests, plugins, provenance
from thinwire.config.cell_of_record import cell_of
from thinwire.config.cluster_file import load as load_cluster
from thinwire.config.expand_suite import cells
from thinwire.data.lay_out import lay_out
from thinwire.emulation.frames import payload_rate
from thinwire.errors import ResourceError, UserError
from thinwire.invariants import curve_file
from thinwire.invariants.of_record import read_tables
from thinwire.invariants.run_file import broken_in_run
from thinwire.optim.recipe import Schedule
from thinwire.optim.schedule import learning_rate
from thinwire.record import CHECKPOINTS, CURVE, LOG, RUN, TRAFFIC
from thinwire.report import collect
from thinwire.train.result_folders import data_folder, record_folder
from thinwire.train.run_cell import Attempt
from thinwire.verify import records, verify

IMAGES = 539


def short(cell, epochs=2):
    return replace(cell, recipe=cell.recipe.model_copy(update={"epochs": epochs}))


# Between them they use the channels in and between nodes, and parameter servers.
PATHS = ("digits/cnn/hsgd/w8n2/seed0", "digits/cnn/ps_sgd/w4/seed0")
GRID = [short(cell) for cell in cells("demo") if cell.path in PATHS]
SERVER, NODES = sorted(GRID, key=lambda cell: cell.workers)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The records of two short runs."""
    folder = tmp_path_factory.mktemp("made")
    digits = plugins.get("dataset", "digits").load()
    lay_out("digits", digits(digits.Config()), data_folder(folder, "digits"), None, folder / "download")
    for cell in GRID:
        Attempt(cell, folder, 60.0).run(lambda trainer: None)
    return folder


@pytest.fixture
def results(made, tmp_path, monkeypatch):
    for module in (collect, records):
        monkeypatch.setattr(module, "cells", lambda suite: GRID)
    return shutil.copytree(made, tmp_path / "results")


def rewrite(folder, change=lambda content: None):
    """Change a run.json, and make all digests anew."""
    content = digests.read_json(folder / RUN)
    content["files"] = digests.of_files(folder, (CURVE, TRAFFIC, LOG))
    change(content)
    digests.write_json(folder / RUN, content)


def in_run(*path, to):
    """Change one value of run.json: to another value, or as a function says."""

    def change(folder):
        def edit(content):
            *inner, last = path
            for key in inner:
                content = content[key]
            content[last] = to(content.get(last)) if callable(to) else to

        rewrite(folder, edit)

    return change


def in_table(name, edit):
    """Change the rows of a table."""

    def change(folder):
        table = pq.read_table(folder / name)
        rows = table.to_pylist()
        edit(rows)
        columns = {column: [row.get(column) for row in rows] for column in table.column_names}
        pq.write_table(pa.table(columns, schema=table.schema), folder / name)
        rewrite(folder)

    return change


def set_value(name, column, value, row=0):
    """Change a value in a row of a table: to another value, or as a function says."""

    def edit(rows):
        rows[row][column] = value(rows[row][column]) if callable(value) else value

    return in_table(name, edit)


def renamed(name, old, new):
    """Rename a column."""

    def change(folder):
        table = pq.read_table(folder / name)
        pq.write_table(
            table.rename_columns([new if c == old else c for c in table.column_names]), folder / name
        )
        rewrite(folder)

    return change


def swapped_rows(rows):
    rows[0], rows[1] = rows[1], rows[0]


def moved(column, source, target):
    """Move four bytes of a worker from one row of each step to another, so that all sums stay.

    Args:
        column: of the bytes.
        source: a value that only the first row has, with its column.
        target: the same for the second one.
    """

    def edit(rows):
        for step in {row["step"] for row in rows}:
            of_step = [row for row in rows if row["step"] == step]
            for (name, value), change in ((source, -4.0), (target, 4.0)):
                next(row for row in of_step if row[name] == value)[column] += change

    return in_table(TRAFFIC, edit)


def plus(value):
    return lambda old: old + value


# By invariant and by what was changed: a change of the run with parameter servers.
CHANGES = {
    ("seed", "seed"): in_run("provenance", "seed", to=7),
    ("kind", "kind"): in_run("kind", to="measured"),
    ("rules", "version"): in_run("provenance", "rules", to=2),
    ("options", "of the model"): in_run("model_options", "width", to=1),
    ("planned steps", "total"): in_run("total_steps", to=plus(1)),
    ("status", "reason"): in_run("reason", to="bad luck"),
    ("preparation", "digest without cost"): in_run("provenance", "prepared_sha256", to="0" * 64),
    ("validity of times", "reason"): in_run("no_time_because", to="it was slow"),
    ("start and end", "end"): in_run("provenance", "ended", to="2020-01-01T00:00:00+00:00"),
    ("start and end", "training"): in_run("result", "seconds", "train", to=plus(1e6)),
    ("columns", "name"): renamed(CURVE, "test_loss", "loss"),
    ("columns", "another one"): renamed(TRAFFIC, "messages", "calls"),
    ("columns", "empty value"): set_value(CURVE, "train_loss", None),
    ("result", "accuracy"): in_run("result", "test_accuracy_percent", to=100.0),
    ("result", "best accuracy"): in_run("result", "best_test_accuracy_percent", to=100.0),
    ("result", "loss"): in_run("result", "test_loss", to=0.5),
    ("result", "payload"): in_run("result", "traffic", "payload_push_bytes", to=4.0),
    ("result", "seconds"): in_run("result", "seconds", "eval", to=0.0),
    ("result", "metric"): in_run("result", "metrics", "period", to=2.0),
    ("evaluations", "none"): in_table(CURVE, lambda rows: rows.clear()),
    ("evaluations", "one less"): in_table(CURVE, lambda rows: rows.pop(0)),
    ("evaluations", "order"): in_table(CURVE, swapped_rows),
    ("steps", "step"): set_value(CURVE, "step", plus(1)),
    ("samples", "samples"): set_value(CURVE, "samples", plus(64)),
    ("learning rate", "rate"): set_value(CURVE, "lr", lambda lr: lr * 1.001),
    ("accuracy", "no whole image"): set_value(CURVE, "test_accuracy_percent", 91.2),
    ("accuracy", "above 100"): set_value(CURVE, "test_accuracy_percent", 540 / 5.39),
    ("bytes never fall", "wire"): set_value(CURVE, "wire_sent_bytes", 0.0, row=1),
    ("seconds never fall", "training"): set_value(CURVE, "train_seconds", 1e6),
    ("whole bytes", "quarter"): set_value(CURVE, "payload_pull_bytes", plus(0.125)),
    ("links", "between nodes"): set_value(CURVE, "between_nodes_bytes", 4.0, row=1),
    ("links", "received"): set_value(CURVE, "wire_received_bytes", plus(4.0)),
    ("links", "busiest"): set_value(CURVE, "wire_sent_max_bytes", 1.0),
    ("names", "kind"): set_value(TRAFFIC, "kind", "gradients"),
    ("names", "verb"): set_value(TRAFFIC, "verb", "whisper"),
    ("names", "row twice"): in_table(TRAFFIC, lambda rows: rows.append(rows[-1])),
    ("whole bytes", "messages"): set_value(TRAFFIC, "messages", plus(0.1)),
    ("traffic never falls", "messages"): set_value(TRAFFIC, "messages", plus(1e6)),
    ("sums", "payload"): set_value(TRAFFIC, "payload_push_bytes", plus(1.0)),
    ("sums", "row less"): in_table(TRAFFIC, lambda rows: rows.pop()),
    ("sums", "epoch"): set_value(TRAFFIC, "epoch", 9),
    ("sums", "step"): set_value(TRAFFIC, "step", 3),
    ("verbs", "sent"): moved("wire_sent_bytes", ("verb", "push"), ("verb", "pull")),
    ("start and end", "no time"): in_run("provenance", "ended", to="yesterday"),
}


@pytest.mark.parametrize(("invariant", "what"), CHANGES, ids=map(": ".join, CHANGES))
def test_a_change_breaks_the_invariant_that_is_named(results, invariant, what):
    folder = record_folder(results, SERVER)
    CHANGES[invariant, what](folder)
    found = verify.verify(results)
    assert (found.records, found.sound) == (2, 1)
    mine = [sentence for sentence in found.problems if f"(invariant: {invariant})" in sentence]
    assert mine, found.problems
    assert all(str(folder) in sentence and "again" in sentence for sentence in mine)
    with pytest.raises(UserError) as refusal:
        collect.collect(["demo"], results)
    assert str(folder) in str(refusal.value)
    assert "invariant: " in str(refusal.value)
    # The pipeline would not notice, and without the option the record might be the one that is there.
    command = f"`thinwire run demo {SERVER.path} --again --results {results}`"
    assert str(refusal.value).endswith(f": make this run again with {command}")


def test_a_record_that_breaks_an_invariant_is_not_published(made, tmp_path, monkeypatch):
    shutil.copytree(made / "data", tmp_path / "data")
    monkeypatch.setattr(provenance.Span, "ended", lambda self: "2020-01-01T00:00:00+00:00")
    attempt = Attempt(short(SERVER, epochs=1), tmp_path, 60.0)
    (attempt.partial / CHECKPOINTS).mkdir(parents=True)
    with pytest.raises(UserError, match=r"\(invariant: start and end\): the record is not published"):
        attempt.run(lambda trainer: None)
    assert not attempt.target.exists()
    # The next attempt begins anew.
    assert {path.name for path in attempt.partial.iterdir()} & {RUN, CHECKPOINTS} == set()


def test_a_thread_that_cannot_start_says_nothing_about_a_table(results, monkeypatch):
    def refuse(path):
        raise pa.ArrowException("Failed to launch worker thread: Resource temporarily unavailable")

    monkeypatch.setattr(pq, "ParquetFile", refuse)
    with pytest.raises(ResourceError, match="Resource temporarily unavailable"):
        read_tables(record_folder(results, SERVER))


def test_a_clock_that_is_set_back_does_not_change_how_long_a_run_took(monkeypatch):
    span = provenance.Span()
    monkeypatch.setattr(provenance, "now", lambda: "2020-01-01T00:00:00+00:00")
    later = time.monotonic() + 100
    monkeypatch.setattr("time.monotonic", lambda: later)
    passed = datetime.fromisoformat(span.ended()) - datetime.fromisoformat(span.started)
    assert passed.total_seconds() == pytest.approx(100, abs=2)


def test_a_table_that_is_none_is_found(results):
    folder = record_folder(results, SERVER)
    (folder / CURVE).write_bytes(b"PAR1")
    rewrite(folder)
    assert "cannot be read as a table" in verify.verify(results).problems[0]
    with pytest.raises(UserError, match=r"cannot be read as a table .* again"):
        collect.collect(["demo"], results)


def in_cell(**changes):
    return lambda content: content["cell"].update(changes)


def in_provenance(**changes):
    return lambda content: content["provenance"].update(changes)


FORGED = {
    "a device among its files": lambda content: content["files"].update({"/dev/zero": "0"}),
    "no digest of its tables": lambda content: content.update(files={}),
    "sources in a list": in_provenance(sources_sha256=["0"]),
    "data in a list": in_provenance(data_sha256=["0"]),
    "hardware as a text": in_provenance(hardware="a machine"),
    "ranks that are numbers": lambda content: (
        content.update(kind="measured"),
        content["cell"].update(transport="processes"),
        content["provenance"].update(ranks=[1]),
    ),
    "a start that is no time": in_provenance(started="then"),
    "a start in another calendar": in_provenance(started="2026-01-01T00:00:00"),
    "no workers": in_cell(workers=0),
    "more workers than there can be": in_cell(workers=10**12),
    "no nodes": in_cell(nodes=0),
    "a suite without a name": in_cell(suite=None),
    "a suite outside": in_cell(suite="../../demo"),
    "a size that is a number": in_cell(size_label=8),
    "recipe of a billion epochs": lambda content: content["cell"]["recipe"].update(epochs=10**9),
    "a seed that is a text": in_cell(suite_seed="seed"),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_record_is_one_sentence(results, name):
    folder = record_folder(results, SERVER)
    rewrite(folder, FORGED[name])
    found = verify.verify(results).problems
    assert found
    assert all(str(folder) in sentence and "\n" not in sentence for sentence in found)
    with pytest.raises(UserError, match=r"run\.json .* again"):
        collect.collect(["demo"], results)


def test_data_whose_manifest_is_not_named_are_other_data(results):
    rewrite(record_folder(results, SERVER), in_provenance(data_sha256={"images.npy": "0"}))
    assert any("other data than there are now" in sentence for sentence in verify.verify(results).problems)


@pytest.mark.parametrize("name", [RUN, CURVE, LOG])
def test_a_device_is_not_read(results, name):
    folder = record_folder(results, SERVER)
    (folder / name).unlink()
    (folder / name).symlink_to("/dev/zero")
    assert f"{name} is no regular file" in verify.verify(results).problems[0]


def test_untouched_records_are_sound(results):
    collect.collect(["demo"], results)
    assert verify.verify(results)[:3] == (2, 2, [])


@pytest.mark.parametrize("fact", ["initial_weights_sha256", "data_sha256"])
def test_paired_runs_start_alike(results, fact):
    """Also where the number of workers differs."""
    in_run("provenance", fact, to={"manifest.json": "0" * 64})(record_folder(results, SERVER))
    found = verify.verify(results).problems
    assert sum("differ from those of its pair" in sentence for sentence in found) == 1


def test_the_rate_of_a_plateau_falls_by_whole_factors_and_never_rises():
    schedule = Schedule(name="plateau", factor=0.5)
    cell = replace(SERVER, recipe=SERVER.recipe.model_copy(update={"schedule": schedule}))
    peak = learning_rate(cell.recipe, cell.workers, 9, 10)

    def broken(*scales):
        rows = [{"step": 10 * (i + 1), "lr": peak * scale} for i, scale in enumerate(scales)]
        return curve_file._learning_rate(SimpleNamespace(steps_per_epoch=10), cell, rows)

    assert broken(1, 1, 0.5, 0.125, 0.125) is None
    for scales in ((1, 0.5, 1), (2,), (1, 0.7)):
        assert "and the recipe gives" in broken(*scales)


def test_a_channel_inside_nodes_uses_no_link_between_them(results):
    change = moved("between_nodes_bytes", ("channel", "across"), ("channel", "node"))
    change(record_folder(results, NODES))
    assert any("(invariant: verbs)" in sentence for sentence in verify.verify(results).problems)


def test_a_record_in_another_folder_is_found(results):
    folder = record_folder(results, SERVER)
    folder.rename(folder.with_name("seed1"))
    assert f"holds a record of demo/{SERVER.path}" in verify.verify(results).problems[0]


def test_other_options_with_their_own_fingerprint_are_found(results):
    """The cell and the fingerprint fit, and only the suite says that this run was not asked for."""
    other = replace(SERVER, suite_seed=1)

    def edit(content):
        content.update(cell=other.identity(), fingerprint=other.fingerprint)
        content["provenance"]["seed"] = other.seed

    rewrite(record_folder(results, SERVER), edit)
    assert "other options than the suite has now (suite_seed)" in verify.verify(results).problems[0]


def test_a_folder_without_records_is_refused(tmp_path):
    with pytest.raises(UserError, match="there is no record under"):
        verify.verify(tmp_path)


RANKS = [{"host": "h", "node": "h", "cores": [core], "device": "cpu"} for core in range(4)]
SHARED = "4 workers shared 1 cores of h"


@pytest.mark.parametrize(
    ("cores", "reason", "holds"),
    [(4, None, True), (1, SHARED, True), (1, None, False), (4, SHARED, False), (1, "it was slow", False)],
)
def test_whether_measured_times_count_follows_from_the_ranks(cores, reason, holds):
    """The easiest cheat: a run on shared cores that gives no reason would have times in the tables."""
    ranks = [rank | {"cores": [core % cores]} for core, rank in enumerate(RANKS)]
    found = broken_of("processes", "measured", reason, {"ranks": ranks})
    assert found == ([] if holds else ["validity of times"])


@pytest.mark.parametrize(
    ("rate", "shorter", "reason", "holds"),
    [
        (0.96, 0.01, None, True),
        (0.90, 0.01, "the link of node 0 was slow", True),
        (0.90, 0.01, None, False),
        (0.96, 0.20, None, False),
        (0.96, None, "it was slow", False),
    ],
)
def test_whether_emulated_times_count_follows_from_the_links(rate, shorter, reason, holds):
    cluster = load_cluster("emulated_100m")
    carried = payload_rate(cluster.link.rate_bytes_per_second) * rate
    calibration = {
        "message_bytes": 4,
        "payload_bytes_per_second": [carried, carried],
        "round_trip_seconds": [0.1, 0.1],
        "all_reduce": [],
    }
    emulation = {"calibration": calibration, "crowding": {"shorter_by_at_most": shorter}}
    found = broken_of("emulated", "emulated", reason, {"emulation": emulation}, cluster=cluster)
    assert found == ([] if holds else ["validity of times"])


def broken_of(transport, kind, reason, provenance, **cell_changes):
    """The invariants that an invented run.json breaks."""
    cell = replace(sound.cells("demo")[0], transport=transport, **cell_changes)
    about = {"kind": kind, "no_time_because": reason, "provenance": provenance, "method_options": {}}
    run = made_record(cell, sound.curve(cell), **about)
    return [each.invariant for each in broken_in_run(run, cell)]


@pytest.mark.parametrize("suite", [name for name in project.SUITES if name != "paper"])
def test_every_cell_is_known_again_from_its_record(suite):
    for cell in cells(suite)[:40]:
        content = json.loads(json.dumps(cell.identity()))
        assert cell_of(content) == cell


def test_what_no_suite_can_have_is_no_cell():
    with pytest.raises(UserError, match="its cell is none that a suite can have"):
        cell_of(SERVER.identity() | {"workers": "4"} | {"recipe": {}})
