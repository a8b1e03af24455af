"""Each change of a record of a real run, whose digests are made anew, breaks the invariant that is named."""

import shutil
from dataclasses import replace
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from thinwire.audit.verify import verify
from thinwire.base import digests
from thinwire.base.errors import ResourceError, UserError
from thinwire.config.expand import cells
from thinwire.records import provenance
from thinwire.records.record import CHECKPOINTS, CURVE, LOG, RUN, TRAFFIC, read_tables
from thinwire.report.rows import collect
from thinwire.train import record_check
from thinwire.train.result_files import record_folder
from thinwire.train.run_cell import Attempt

# Between them they use the channels in and between nodes, and parameter servers.
PATHS = ("digits/cnn/hsgd/w8n2/seed0", "digits/cnn/ps_sgd/w4/seed0")


def short(cell, epochs=2):
    return replace(cell, recipe=cell.recipe.model_copy(update={"epochs": epochs}))


GRID = [short(cell) for cell in cells("demo") if cell.path in PATHS]
SERVER, NODES = sorted(GRID, key=lambda cell: cell.workers)


@pytest.fixture(scope="module")
def made(laid_out):
    """The records of two short runs."""
    for cell in GRID:
        Attempt(cell, laid_out, 60.0).run(lambda trainer: None)
    return laid_out


@pytest.fixture
def results(made, tmp_path, monkeypatch):
    for module in (collect, record_check):
        monkeypatch.setattr(module, "cells", lambda suite: GRID)
    return shutil.copytree(made, tmp_path / "results")


def rewrite(folder, change=lambda content: None):
    """Change a run.json, and make all digests anew."""
    content = digests.read_json(folder / RUN)
    content["files"] = digests.of_files(folder, (CURVE, TRAFFIC, LOG))
    change(content)
    digests.write_json(folder / RUN, content)


def changed(old, new):
    return new(old) if callable(new) else new


def in_run(path, to):
    """Change one value of run.json: to another value, or as a function says."""

    def change(folder):
        def edit(content):
            *inner, last = path.split(".")
            for key in inner:
                content = content[key]
            content[last] = changed(content.get(last), to)

        rewrite(folder, edit)

    return change


def in_table(name, edit):
    """Change the rows of a table."""

    def edited(table):
        rows = table.to_pylist()
        edit(rows)
        return pa.Table.from_pylist(rows, schema=table.schema)

    return with_columns(name, edited)


def cell(name, column, to, row=0):
    """Change a value in a row of a table: to another value, or as a function says."""
    return in_table(name, lambda rows: rows[row].update({column: changed(rows[row][column], to)}))


def with_columns(name, edit):
    """Change which columns a table has."""

    def change(folder):
        pq.write_table(edit(pq.read_table(folder / name)), folder / name)
        rewrite(folder)

    return change


def renamed(name, old, new):
    return with_columns(name, lambda table: table.rename_columns({old: new}))


def one_more(table):
    return table.append_column("more", table["messages"])


def moved(column, key, source, target):
    """Move four bytes of a worker from the first row of each step with one value to that with another."""

    def edit(rows):
        for step in {row["step"] for row in rows}:
            for value, more in ((source, -4.0), (target, 4.0)):
                next(r for r in rows if (r["step"], r[key]) == (step, value))[column] += more

    return in_table(TRAFFIC, edit)


def plus(value):
    return lambda old: old + value


# The invariant, what was changed in the run with parameter servers, and how it is broken.
CHANGES = [
    ("seed", in_run("provenance.seed", 7), "its seed is 7, and "),
    ("cell", in_run("kind", "measured"), "its kind is measured, and runs with the transport inprocess"),
    ("cell", in_run("provenance.rules", 2), "under version 2 of the rules"),
    ("cell", in_run("model_options.width", 1), "cnn ran with width 1, and its cell says 32"),
    ("steps", in_run("total_steps", plus(1)), "39 steps are not 2 epochs of 19 steps"),
    ("status", in_run("reason", "bad luck"), "gives a reason why it is not"),
    ("status", in_run("provenance.prepared_sha256", "0" * 64), "no cost of a preparation, and a digest"),
    ("times", in_run("no_time_because", "it was slow"), "an in-process run never has times"),
    ("times", in_run("provenance.ended", "2020-01-01T00:00:00+00:00"), "before it started"),
    ("times", in_run("provenance.ended", "yesterday"), "it holds what no run writes (ValueError: "),
    ("times", in_run("result.seconds.train", plus(1e6)), "passed between its start and its end"),
    ("columns", renamed(CURVE, "test_loss", "loss"), "it has no column test_loss"),
    ("columns", renamed(TRAFFIC, "messages", "calls"), "it has no column messages"),
    ("columns", with_columns(TRAFFIC, one_more), "a column more, which no run writes"),
    ("columns", cell(CURVE, "train_loss", None), "its column train_loss has an empty value"),
    ("result", in_run("result.test_accuracy_percent", 100.0), "its test_accuracy_percent is 100.0, and"),
    ("result", in_run("result.best_test_accuracy_percent", 100.0), "its best_test_accuracy_percent"),
    ("result", in_run("result.metrics.period", 2.0), "its metrics.period is 2.0, and the last row"),
    ("steps", in_table(CURVE, lambda rows: rows.clear()), "it is empty, and run.json has a result"),
    ("steps", in_table(CURVE, lambda rows: rows.pop(0)), "epochs 2, and a run of 2 epochs has 1, 2"),
    ("steps", cell(CURVE, "step", plus(1)), "step 20 is not the end of epoch 1 of 19 steps"),
    ("steps", cell(CURVE, "samples", plus(64)), "images are not those of 19 steps of 64 images"),
    ("learning rate", cell(CURVE, "lr", lambda lr: lr * 1.001), "and the recipe gives"),
    ("score", cell(CURVE, "test_accuracy_percent", 91.2), "no number of 539 images is 91.2 % of them"),
    ("score", cell(CURVE, "test_accuracy_percent", 540 / 5.39), "% is impossible"),
    ("bytes", cell(CURVE, "wire_sent_bytes", 0.0, row=1), "wire_sent_bytes falls to 0 in step 38"),
    ("bytes", cell(CURVE, "payload_pull_bytes", plus(0.125)), "is no mean of whole numbers of 4 workers"),
    ("bytes", cell(CURVE, "between_nodes_bytes", 4.0, row=1), "and there was one node"),
    ("bytes", cell(CURVE, "wire_received_bytes", plus(4.0)), "sent "),
    ("bytes", cell(CURVE, "wire_sent_max_bytes", 1.0), "carried fewer bytes than the mean"),
    ("bytes", cell(CURVE, "wire_sent_max_bytes", plus(1e9), row=1), "carried more bytes than all links"),
    ("times", cell(CURVE, "train_seconds", 1e6), "train_seconds falls to "),
    ("ledger", cell(TRAFFIC, "kind", "gradients"), "'gradients' is no kind"),
    ("ledger", in_table(TRAFFIC, lambda rows: rows.append(rows[-1])), "it has two rows of the same step"),
    ("ledger", cell(TRAFFIC, "messages", plus(0.1)), "messages in step 19 is no mean of whole numbers"),
    ("ledger", cell(TRAFFIC, "payload_push_bytes", plus(1.0)), "payload_push_bytes in step 19 add up to"),
    ("ledger", in_table(TRAFFIC, lambda rows: rows.pop()), "in step 38 add up to "),
    ("ledger", cell(TRAFFIC, "epoch", 9), "step 19 is in another epoch than in curve.parquet"),
    ("ledger", cell(TRAFFIC, "step", 3), "after which curve.parquet has no evaluation"),
    ("ledger", cell(TRAFFIC, "wire_sent_max_bytes", 0.0), "wire_sent_max_bytes in step 19 cannot give"),
    ("verbs", moved("wire_sent_bytes", "verb", "push", "pull"), "neither send"),
    ("verbs", moved("payload_pull_bytes", "verb", "pull", "push"), " workers"),
]


@pytest.mark.parametrize(("invariant", "change", "how"), CHANGES)
def test_a_change_breaks_the_invariant_that_is_named(results, invariant, change, how):
    folder = record_folder(results, SERVER)
    change(folder)
    found = verify(results)
    assert (found.records, found.sound) == (2, 1)
    mine = [sentence for sentence in found.problems if f"(invariant: {invariant})" in sentence]
    assert any(how in sentence for sentence in mine), found.problems
    assert all(str(folder) in sentence and "again" in sentence for sentence in mine)
    with pytest.raises(UserError) as refusal:
        collect.collect(["demo"], results)
    assert str(folder) in str(refusal.value)
    assert "invariant: " in str(refusal.value)
    # The pipeline would not notice, and without the option the record might be the one that is there.
    command = f"`thinwire run demo {SERVER.path} --again --results {results}`"
    assert str(refusal.value).endswith(f": make this run again with {command}")


def test_a_channel_inside_nodes_uses_no_link_between_them(results):
    moved("between_nodes_bytes", "channel", "across", "node")(record_folder(results, NODES))
    assert any("(invariant: verbs)" in sentence for sentence in verify(results).problems)


@pytest.mark.parametrize("fact", ["initial_weights_sha256", "data_sha256"])
def test_paired_runs_start_alike(results, fact):
    """Also where the number of workers differs."""
    in_run(f"provenance.{fact}", {"manifest.json": "0" * 64})(record_folder(results, SERVER))
    found = verify(results).problems
    assert sum("differ from those of its pair" in sentence for sentence in found) == 1


def test_untouched_records_are_sound_and_a_folder_without_records_is_refused(results, tmp_path):
    collect.collect(["demo"], results)
    assert verify(results)[:3] == (2, 2, [])
    with pytest.raises(UserError, match="there is no record under"):
        verify(tmp_path)


def test_a_record_that_breaks_an_invariant_is_not_published(made, tmp_path, monkeypatch):
    shutil.copytree(made / "data", tmp_path / "data")
    monkeypatch.setattr(provenance.Span, "ended", lambda self: "2020-01-01T00:00:00+00:00")
    attempt = Attempt(short(SERVER, epochs=1), tmp_path, 60.0)
    (attempt.partial / CHECKPOINTS).mkdir(parents=True)
    with pytest.raises(UserError, match=r"\(invariant: times\): the record is not published"):
        attempt.run(lambda trainer: None)
    assert not attempt.target.exists()
    # The next attempt begins anew.
    assert {path.name for path in attempt.partial.iterdir()} & {RUN, CHECKPOINTS} == set()


def test_a_thread_that_cannot_start_says_nothing_about_a_table(results, monkeypatch):
    why = "Failed to launch worker thread: Resource temporarily unavailable"
    monkeypatch.setattr(pq, "ParquetFile", Mock(side_effect=pa.ArrowException(why)))
    with pytest.raises(ResourceError, match="Resource temporarily unavailable"):
        read_tables(record_folder(results, SERVER))


def no_table(folder):
    (folder / CURVE).write_bytes(b"PAR1")
    rewrite(folder)


def ranks_that_are_numbers(folder):
    for path, to in (("kind", "measured"), ("cell.transport", "processes"), ("provenance.ranks", [1])):
        in_run(path, to)(folder)


FORGED = {
    "no table": no_table,
    "a device among its files": in_run("files", lambda files: files | {"/dev/zero": "0"}),
    "no digest of its tables": in_run("files", {}),
    "sources in a list": in_run("provenance.sources_sha256", ["0"]),
    "ranks that are numbers": ranks_that_are_numbers,
    "a start in another calendar": in_run("provenance.started", "2026-01-01T00:00:00"),
    "no workers": in_run("cell.workers", 0),
    "more workers than there can be": in_run("cell.workers", 10**12),
    "a suite without a name": in_run("cell.suite", None),
    "a suite outside": in_run("cell.suite", "../../demo"),
    "a size that is a number": in_run("cell.size_label", 8),
    "recipe of a billion epochs": in_run("cell.recipe.epochs", 10**9),
    "a seed that is a text": in_run("cell.suite_seed", "seed"),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_record_is_one_sentence(results, name):
    folder = record_folder(results, SERVER)
    FORGED[name](folder)
    found = verify(results).problems
    assert found
    assert all(str(folder) in sentence and "\n" not in sentence for sentence in found)
    with pytest.raises(UserError, match=r"(run\.json|cannot be read as a table) .* again"):
        collect.collect(["demo"], results)


def of_another_suite(folder):
    """The cell and the fingerprint fit, and only the suite says that this run was not asked for."""
    other = replace(SERVER, suite_seed=1)
    in_run("cell", other.identity())(folder)
    in_run("fingerprint", other.fingerprint)(folder)
    in_run("provenance.seed", other.seed)(folder)


OTHER_PLACES = [
    (lambda folder: folder.rename(folder.with_name("seed1")), f"a record of demo/{SERVER.path}: delete"),
    (of_another_suite, "other options than the suite has now (suite_seed)"),
]


@pytest.mark.parametrize(("change", "words"), OTHER_PLACES)
def test_a_record_of_something_else_is_found(results, change, words):
    change(record_folder(results, SERVER))
    assert any(words in sentence for sentence in verify(results).problems)
