"""Who verifies a data set before a run, and what a rank shows meanwhile."""

import hashlib
from dataclasses import replace
from types import SimpleNamespace

import pytest

from thinwire import plugins
from thinwire.config.expand_suite import cells
from thinwire.data import arrays, lay_out
from thinwire.errors import UserError
from thinwire.launch.heartbeat import Beat, HangDetector
from thinwire.train import run_setup
from thinwire.train.run_setup import RunSetup
from thinwire.transport.inprocess import InProcess

CELL = replace(cells("demo")[0], workers=4, nodes=2, transport="processes")


@pytest.fixture
def digits(tmp_path):
    dataset = plugins.get("dataset", "digits").load()()
    lay_out.lay_out("digits", dataset, tmp_path / "digits", None, tmp_path / "download")
    return tmp_path / "digits", dataset


def test_the_digest_is_that_of_the_file_and_shows_how_far_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(arrays, "_CHUNK_BYTES", 400)
    path = tmp_path / "images.npy"
    path.write_bytes(bytes(range(250)) * 4)
    shown = []
    digest = arrays.watched_digest(path, shown.append)
    assert digest == hashlib.sha256(path.read_bytes()).hexdigest()
    assert shown == [f"verifies images.npy, {percent} %" for percent in (40, 80, 100)]
    path.write_bytes(b"")
    assert arrays.watched_digest(path, shown.append) == hashlib.sha256(b"").hexdigest()


def test_a_rank_that_verifies_for_longer_than_hang_seconds_does_not_hang(digits, monkeypatch):
    """Each sign of life is a move; here one comes every 200 seconds."""
    monkeypatch.setattr(arrays, "_CHUNK_BYTES", 10_000)
    folder, dataset = digits
    detector = HangDetector(silent_seconds=1e9, hang_seconds=300, paused_seconds=1e9)
    seconds, moves, ends = 0.0, 0, []

    def progress(what):
        nonlocal seconds, moves
        seconds, moves = seconds + 200, moves + 1
        beats = [
            Beat(0, "a", moves, moves, what),
            Beat(1, "a", moves, 1, "waits for the status of all workers"),
        ]
        ends.append(detector.check(beats, seconds))

    arrays.load(folder, dataset, progress=progress)
    assert seconds > 1000
    assert not any(ends)


def test_a_damaged_file_is_found_by_the_process_that_verifies(digits):
    folder, dataset = digits
    path = folder / "test_images.npy"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"test_images.npy is not the file that was prepared"):
        arrays.load(folder, dataset)
    arrays.load(folder, dataset, verify=False)
    path.write_bytes(content[:-1])
    with pytest.raises(UserError, match="bytes instead of"):
        arrays.load(folder, dataset, verify=False)


class Stop(Exception):
    """Ends the setup."""


@pytest.mark.parametrize("kind", ["measured", "emulated"])
def test_the_first_rank_of_each_node_verifies_for_the_others(monkeypatch, tmp_path, kind):
    verified = {}

    def task_of(cell, results, device, verify, progress):
        verified[rank] = verify
        raise Stop

    monkeypatch.setattr(run_setup, "task_of", task_of)
    for rank in range(4):
        with pytest.raises(Stop):
            RunSetup(CELL, tmp_path, SimpleNamespace(kind=kind, ranks=[rank])).load()
    assert verified == {0: True, 1: False, 2: True, 3: False}
    rank = "all"
    with pytest.raises(Stop):
        RunSetup(replace(CELL, transport="inprocess"), tmp_path, InProcess(4)).load()
    # A worker without its mates, which may have any number.
    with pytest.raises(Stop):
        RunSetup(CELL, tmp_path, SimpleNamespace(kind="mirrored", ranks=[3])).load()
    assert verified["all"]


def test_a_run_shows_what_it_verifies(monkeypatch, tmp_path):
    shown = []

    def task_of(cell, results, device, verify, progress):
        progress("verifies a, 1 %")
        raise Stop

    monkeypatch.setattr(run_setup, "task_of", task_of)
    with pytest.raises(Stop):
        RunSetup(CELL, tmp_path, InProcess(4), shown.append).load()
    assert shown == ["verifies a, 1 %"]
