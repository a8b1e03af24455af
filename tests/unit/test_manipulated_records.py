"""Every reader of a record finds what was changed after its run."""

import json
import os
import shutil

import pandas as pd
import pytest

from tests import sound
from thinwire import digests, plugins, record
from thinwire.config.cell_sources import sources
from thinwire.data.dataset import MANIFEST
from thinwire.errors import UserError
from thinwire.launch.retry import AttemptEnd, finished, until_it_ends
from thinwire.reference import compare
from thinwire.report import collect
from thinwire.report.claims import table
from thinwire.report.report import report
from thinwire.tracking import replay
from thinwire.train.result_folders import data_folder, partial_folder, record_folder

GRID = sound.cells("demo")[:2]
CELL, OTHER = GRID


def publish(results, cell):
    """A record as `thinwire run` leaves it."""
    manifest = data_folder(results, cell.dataset) / MANIFEST
    manifest.parent.mkdir(parents=True, exist_ok=True)
    manifest.write_text("{}")
    about = {
        "sources_sha256": sources(cell),
        "data_sha256": {MANIFEST: digests.of_file(manifest)},
        "git": None,
    }
    return sound.publish(results, cell, provenance=about)


def edit(path, change):
    """Change what a record says, and leave its digest."""
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def edited(change):
    return lambda folder, other: edit(folder / record.RUN, change)


def overwritten(name, content):
    return lambda folder, other: (folder / name).write_bytes(content((folder / name).read_bytes()))


def paste_fingerprint(folder, other):
    """Another cell's record under this cell's fingerprint, whose digest is right."""
    content = digests.read_json(other / record.RUN) | {"fingerprint": CELL.fingerprint}
    shutil.rmtree(folder)
    shutil.copytree(other, folder)
    digests.write_json(folder / record.RUN, content)


def replaced(folder, other):
    shutil.rmtree(folder)
    shutil.copytree(other, folder)


def as_folder(name):
    def change(folder, other):
        (folder / name).unlink()
        (folder / name).mkdir()

    return change


def unreadable(name):
    """A link to itself: the system refuses to open it, whoever asks."""

    def change(folder, other):
        (folder / name).unlink()
        (folder / name).symlink_to(folder / name)

    return change


def flip(content):
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


AGAIN = "start the pipeline again, or make this run again with"
RUN, CURVE, TRAFFIC, LOG = record.RUN, record.CURVE, record.TRAFFIC, record.LOG
MANIPULATIONS = {
    "accuracy": edited(lambda c: c["result"].update(test_accuracy_percent=99.9)),
    "loss": edited(lambda c: c["result"].update(test_loss=1e999)),
    "payload": edited(lambda c: c["result"]["traffic"].update(payload_push_bytes=1.0)),
    "seconds": edited(lambda c: c["result"]["seconds"].update(train=1.0)),
    "status": edited(lambda c: c.update(status="failed", reason="out of luck")),
    "reason": edited(lambda c: c.update(reason="out of luck")),
    "kind": edited(lambda c: c.update(kind="measured")),
    "options": edited(lambda c: c["method_options"].update(density=0.5)),
    "seed": edited(lambda c: c["cell"].update(suite_seed=7)),
    "provenance": edited(lambda c: c["provenance"].update(git={"revision": "1" * 40})),
    "digest of the curve": edited(lambda c: c["files"].update({CURVE: "0" * 64})),
    "extra key": edited(lambda c: c.update(extra=1)),
    "missing key": edited(lambda c: c.pop("interruptions")),
    "no digest": edited(lambda c: c.pop("sha256")),
    "fingerprint of this cell": paste_fingerprint,
    "record of another cell": replaced,
    "run.json of another cell": lambda folder, other: shutil.copy(other / RUN, folder / RUN),
    "run.json empty": overwritten(RUN, lambda c: b""),
    "run.json cut": overwritten(RUN, lambda c: c[: len(c) // 2]),
    "run.json not UTF-8": overwritten(RUN, lambda c: c.replace(b"cnn", b"\xff\xfe\xfd")),
    "run.json in UTF-16": overwritten(RUN, lambda c: c.decode().encode("utf-16")),
    "run.json nested deeply": overwritten(RUN, lambda c: b'{"a":' * 10_000 + b"1" + b"}" * 10_000),
    "run.json with a long number": overwritten(RUN, lambda c: b'{"a": ' + b"9" * 5000 + b"}"),
    "run.json a list": overwritten(RUN, lambda c: b"[]"),
    "run.json a folder": as_folder(RUN),
    "run.json unreadable": unreadable(RUN),
    "curve of another run": lambda folder, other: shutil.copy(other / CURVE, folder / CURVE),
    "curve cut": overwritten(CURVE, lambda c: c[:-8]),
    "curve empty": overwritten(CURVE, lambda c: b""),
    "curve missing": lambda folder, other: (folder / CURVE).unlink(),
    "curve a folder": as_folder(CURVE),
    "curve unreadable": unreadable(CURVE),
    "traffic with another bit": overwritten(TRAFFIC, flip),
    "traffic missing": lambda folder, other: (folder / TRAFFIC).unlink(),
}
# Before a record is published its log may grow, and that there is none is no damage.
OF_PUBLISHED = {
    "log with another line": overwritten(LOG, lambda c: c + b"done\n"),
    "log missing": lambda folder, other: (folder / LOG).unlink(),
}


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """The records of two cells."""
    folder = tmp_path_factory.mktemp("published")
    for cell in GRID:
        publish(folder, cell)
    return folder


@pytest.fixture
def results(published, tmp_path, monkeypatch):
    """Their copy, of a suite that has no more cells."""
    for module in (collect, replay):
        monkeypatch.setattr(module, "cells", lambda suite: GRID)
    return shutil.copytree(published, tmp_path / "results")


def collects(results):
    collect.collect(["demo"], results)


def tracks(results):
    assert replay.replay("demo", results).runs == 2


def retries(results):
    """As after a process that died while it published."""

    def start(published):
        record_folder(results, CELL).rename(partial_folder(results, CELL))
        assert not published()
        return AttemptEnd([])

    assert until_it_ends(CELL, results, start, False, print) == 0


def blocks(results):
    record_folder(results, CELL).rename(partial_folder(results, CELL))
    if not finished(CELL, results):
        raise UserError("run.json is refused, and is made again")


READERS = {"collect": collects, "track": tracks, "retry": retries, "block": blocks}
CASES = [(reader, name) for reader in READERS for name in MANIPULATIONS]
CASES += [(reader, name) for reader in ("collect", "track") for name in OF_PUBLISHED]


@pytest.mark.parametrize(("reader", "name"), CASES)
def test_every_change_is_found_by_every_reader(results, reader, name):
    folder = record_folder(results, CELL)
    (MANIPULATIONS | OF_PUBLISHED)[name](folder, record_folder(results, OTHER))
    with pytest.raises(UserError) as refusal:
        READERS[reader](results)
    text = str(refusal.value)
    assert "\n" not in text
    assert any(file in text for file in (RUN, CURVE, TRAFFIC, LOG))
    assert "again" in text, "a way out is named"


@pytest.mark.parametrize("reader", READERS)
def test_an_unchanged_record_is_read(results, reader, monkeypatch):
    """Also if it was only formatted differently, or copied."""
    monkeypatch.setattr(replay, "_replay", lambda *_: (results / "wandb").mkdir(exist_ok=True))
    monkeypatch.setattr(replay, "publish", lambda *_: None)
    path = record_folder(results, CELL) / RUN
    path.write_text(json.dumps(json.loads(path.read_text()), sort_keys=True))
    os.utime(path, (1, 1))
    READERS[reader](results)


def test_a_missing_record_is_named_with_the_command_that_makes_it(results):
    (record_folder(results, CELL) / RUN).unlink()
    with pytest.raises(UserError) as refusal:
        collects(results)
    command = f"`thinwire run demo {CELL.path} --results {results}`"
    assert str(refusal.value).endswith(f"run.json is missing: {AGAIN} {command}")


def test_what_differs_is_named(results):
    shutil.rmtree(record_folder(results, CELL))
    shutil.copytree(record_folder(results, OTHER), record_folder(results, CELL))
    with pytest.raises(
        UserError, match=r"other options than the suite has now \(method.label, method.options.gradients, "
    ):
        collects(results)


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """Plug-ins that may be edited."""
    root = tmp_path / "plugins"
    for kind in plugins.CLASS:
        shutil.copytree(plugins.ROOT / f"{kind}s", root / f"{kind}s")
    monkeypatch.setattr(plugins.find, "__defaults__", (root,))
    return root


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    ("kind", "file"), [("method", "ssgd.py"), ("model", "cnn.py"), ("dataset", "digits.py")]
)
def test_a_plug_in_that_was_changed_and_kept_its_time_is_found(modules, results, reader, kind, file):
    path = modules / f"{kind}s" / file
    before = path.stat()
    path.write_text(path.read_text() + "# another version\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    if reader == "block":
        with pytest.raises(UserError):
            blocks(results)
    else:
        with pytest.raises(
            UserError, match=rf"was made with another file of the {kind} than there is now: .* again"
        ):
            READERS[reader](results)


def test_the_time_of_a_plug_in_says_nothing(modules, results):
    os.utime(modules / "methods/ssgd.py", (1, 1))
    collects(results)


COLLECTED = {
    "summary edited": (collect.SUMMARY, lambda c: c.replace(b"done", b"failed")),
    "summary cut": (collect.SUMMARY, lambda c: c[: len(c) // 2]),
    "summary empty": (collect.SUMMARY, lambda c: b""),
    "curves with another bit": (collect.CURVES, flip),
    "curves cut": (collect.CURVES, lambda c: c[:-8]),
    "curves empty": (collect.CURVES, lambda c: b""),
    "digests edited": (collect.COLLECTED, lambda c: c.replace(b"a", b"b")),
    "digests not UTF-8": (collect.COLLECTED, lambda c: b"\xff" + c),
    "missing": (collect.CURVES, None),
}


@pytest.mark.parametrize("name", COLLECTED)
def test_a_report_needs_the_collected_files_unchanged(results, name):
    collects(results)
    file, change = COLLECTED[name]
    path = results / file
    if change is None:
        path.unlink()
    else:
        path.write_bytes(change(path.read_bytes()))
    command = rf"`thinwire collect demo --results {results}`"
    with pytest.raises(UserError, match=rf"{file}.*: run {command} \(or the pipeline\) first"):
        report("demo", results)
    assert not (results / "tables").exists()


@pytest.mark.parametrize("reader", [lambda r: compare.compare(r, r), table.table], ids=["compare", "claims"])
@pytest.mark.parametrize("content", [b"", b"\xff", b'suite\n"', b"method\nssgd\n"])
@pytest.mark.parametrize("forged", [False, True])
def test_a_damaged_summary_is_one_sentence_to_all_who_ask_it_for_its_suites(results, reader, content, forged):
    collects(results)
    (results / collect.SUMMARY).write_bytes(content)
    if forged:
        digests.write_json(
            results / collect.COLLECTED, {"files": digests.of_files(results, [collect.SUMMARY])}
        )
    with pytest.raises(UserError, match=r"summary\.csv .*: run `thinwire collect \S+ --results \S+` \(or"):
        reader(results)


def test_a_collected_file_of_an_earlier_call_is_refused(results, monkeypatch):
    collects(results)
    earlier = (results / collect.CURVES).read_bytes()
    shutil.rmtree(record_folder(results, OTHER))
    monkeypatch.setattr(collect, "cells", lambda suite: GRID[:1])
    collects(results)
    (results / collect.CURVES).write_bytes(earlier)
    with pytest.raises(UserError, match=r"curves\.parquet is not as it was collected"):
        report("demo", results)
    assert len(pd.read_csv(results / collect.SUMMARY)) == 1
