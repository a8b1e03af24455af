"""Bad input through the whole command line: exit code 2 and one line, whatever is damaged or full."""

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
import yaml

from thinwire.cli.main import main
from thinwire.config import suite

CELL = "digits/cnn/ssgd/w2/seed0"
SUITE = {
    "title": "Tiny",
    "seed": 1,
    "repetitions": 1,
    "datasets": ["digits"],
    "models": {"cnn": {"options": {"width": 2}}},
    "methods": {"ssgd": None},
    "workers": [2],
    "recipe": {"epochs": 1, "batch": 64, "batch_per": "run", "optimizer": {"lr": 0.1}},
}


class Said(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def cli(monkeypatch, capsys):
    """`thinwire ARGUMENTS` in this process; what is raised beyond the exit fails the test."""

    def run(*arguments: object) -> Said:
        monkeypatch.setattr(sys, "argv", ["thinwire", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return Said(ended.value.code, *capsys.readouterr())

    return run


@pytest.fixture
def refused(cli):
    """The one line with which a command refuses its input."""

    def run(*arguments: object) -> str:
        said = cli(*arguments)
        assert said.code == 2, said
        assert said.err.startswith("thinwire: ")
        assert said.err.count("\n") == 1, said.err
        return said.err

    return run


@pytest.fixture
def write_suite(tmp_path, monkeypatch):
    """Write a suite and have it found, beside the real plug-ins."""
    monkeypatch.setattr(suite, "ROOT", tmp_path)
    (tmp_path / "config").mkdir()

    def write(name: str = "tiny", text: str = "", **changes: object) -> None:
        path = tmp_path / "config" / f"{name}.yaml"
        path.write_text(text or yaml.safe_dump({**SUITE, **changes}))

    write()
    return write


@pytest.fixture
def results(cli, write_suite, tmp_path):
    """A results folder with data."""
    folder = tmp_path / "results"
    assert cli("data", "digits", "--results", folder).code == 0
    return folder


@pytest.fixture
def collected(cli, results):
    """A results folder with one record, of a run that died, collected."""
    assert cli("bury", "tiny", CELL, 137, "--results", results).code == 0
    assert cli("collect", "tiny", "--results", results).code == 0
    return results


# ---- Suites.


def test_a_key_that_stands_twice_is_refused(write_suite, refused):
    """Else the first of two entries is dropped without a word."""
    text = yaml.safe_dump(SUITE) + "repetitions: 5\n"
    write_suite(text=text)
    line = refused("cells", "tiny")
    assert "config/tiny.yaml" in line
    assert "repetitions" in line


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"datasets": ["digits", "digits"]}, "datasets"),
        ({"workers": [2, 2]}, "workers"),
        ({"workers": [2, {"workers": 2, "nodes": 1}]}, "workers"),
    ],
    ids=["datasets", "workers", "the same size in two ways"],
)
def test_what_is_named_twice_is_refused(write_suite, refused, changes, path):
    """Else a run counts twice in the means, and its standard deviation is 0."""
    write_suite(**changes)
    assert f"{path}" in refused("cells", "tiny")


def test_a_suite_that_is_collected_twice_has_its_rows_once(collected, cli):
    assert cli("collect", "tiny", "tiny", "--results", collected).code == 0
    assert (collected / "summary.csv").read_text().count("\ntiny,") == 1


def test_the_process_ends_with_2_and_one_line():
    command = [sys.executable, "-m", "thinwire", "run", "no_such_suite", CELL]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (said.returncode, said.stdout) == (2, "")
    assert said.stderr.startswith("thinwire: there is no suite 'no_such_suite'")
    assert said.stderr.count("\n") == 1


# ---- A run and its data.


def damage(path: Path, how: str) -> None:
    content = path.read_bytes()
    if how == "truncated":
        path.write_bytes(content[:-100])
    elif how == "flipped":
        path.write_bytes(content[:-100] + bytes([content[-100] ^ 1]) + content[-99:])
    else:
        path.unlink()


@pytest.mark.parametrize(
    ("how", "says"),
    [("truncated", "bytes instead of"), ("flipped", "SHA-256"), ("missing", "is missing")],
)
def test_a_run_refuses_damaged_data_and_leaves_no_record(results, refused, how, says):
    damage(results / "data/digits/train_images.npy", how)
    line = refused("run", "tiny", CELL, "--results", results)
    assert "train_images.npy" in line
    assert says in line
    assert "prepare the data again" in line
    assert not (results / "runs").exists()


@pytest.mark.parametrize(
    "content",
    ['{"files": {"train', "{}", "null", '{"name": 1, "files": null}'],
    ids=["truncated", "empty", "null", "no files"],
)
def test_a_run_refuses_a_damaged_manifest(results, refused, content):
    (results / "data/digits/manifest.json").write_text(content)
    line = refused("run", "tiny", CELL, "--results", results)
    assert "manifest.json" in line
    assert "prepare the data again" in line


@pytest.mark.parametrize("field", ["files", "name", "mean"])
def test_a_run_refuses_a_manifest_with_a_value_of_another_type(results, refused, field):
    path = results / "data/digits/manifest.json"
    lines = path.read_text().replace(f'"{field}": ', f'"{field}": 3, "was": ')
    path.write_text(lines)
    assert "manifest.json" in refused("run", "tiny", CELL, "--results", results)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_run_on_a_gpu_where_there_is_none(results, write_suite, refused):
    write_suite("gpu", device="cuda")
    line = refused("run", "gpu", CELL, "--results", results)
    assert "device: cuda" in line
    assert "device: cpu" in line


# ---- Records.


def test_a_report_before_anything_is_collected(write_suite, refused, tmp_path):
    line = refused("report", "tiny", "--results", tmp_path / "results")
    assert "summary.csv" in line
    assert "collect" in line


def test_a_report_of_a_suite_that_was_not_collected(collected, write_suite, refused):
    write_suite("other")
    line = refused("report", "other", "--results", collected)
    assert "other" in line
    assert "collect" in line


def test_a_record_is_missing(results, refused):
    line = refused("collect", "tiny", "--results", results)
    assert f"{CELL}/run.json" in line


def test_a_record_of_other_options_is_not_collected(collected, write_suite, refused):
    write_suite(seed=2)
    line = refused("collect", "tiny", "--results", collected)
    assert f"{CELL}/run.json" in line
    assert "other options" in line


@pytest.mark.parametrize("content", ["{", '{"status": "done"}', "[]", ""])
def test_a_damaged_record_is_not_collected(collected, refused, content):
    (collected / "runs/tiny" / CELL / "run.json").write_text(content)
    line = refused("collect", "tiny", "--results", collected)
    assert f"{CELL}/run.json" in line
    assert "not a sound run record" in line


@pytest.mark.parametrize("how", ["truncated", "missing"])
def test_a_damaged_curve_is_not_collected(collected, refused, how):
    damage(collected / "runs/tiny" / CELL / "curve.parquet", how)
    assert f"{CELL}/curve.parquet" in refused("collect", "tiny", "--results", collected)


# ---- Where results cannot be written.


@pytest.mark.parametrize("command", [("data", "digits"), ("run", "tiny", CELL), ("bury", "tiny", CELL, 137)])
@pytest.mark.parametrize("place", ["file", "below a file", "/proc"])
def test_a_results_folder_that_cannot_be_written(write_suite, refused, tmp_path, command, place):
    file = tmp_path / "file"
    file.write_text("")
    folder = {"file": file, "below a file": file / "x", "/proc": Path("/proc/thinwire")}[place]
    line = refused(*command, "--results", folder)
    assert "cannot be written" in line
    assert str(folder) in line


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 400 KB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=400k", "none", str(place)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no file system may be mounted here")
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def fill(disk: Path, but: int = 0) -> None:
    """Leave only some kilobytes free."""
    with (disk / "full").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            pass
        if but:
            file.truncate(file.tell() // 4096 * 4096 - but * 1024)


def test_the_disk_is_full_when_data_are_laid_out(small_disk, write_suite, refused):
    fill(small_disk, but=64)
    line = refused("data", "digits", "--results", small_disk)
    assert "cannot be written" in line
    assert "make room" in line
    assert not [path for path in small_disk.rglob("*") if path.is_file() and path.name != "full"], (
        "what was begun takes room for ever"
    )


@pytest.mark.parametrize("free", [0, 8, 16])
def test_the_disk_is_full_when_a_cell_is_run(small_disk, write_suite, cli, refused, free):
    """From the first line of the log to the record."""
    assert cli("data", "digits", "--results", small_disk).code == 0
    write_suite(checkpoint_every_seconds=0)
    fill(small_disk, but=free)
    line = refused("run", "tiny", CELL, "--results", small_disk)
    assert "cannot be written" in line
    assert "make room" in line
    assert not list(small_disk.rglob("run.json"))
