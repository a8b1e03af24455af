"""The installed package works from any folder, without make and without a clone of the repository."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import venv

import pandas as pd
import pytest

from tests.commands import succeeded
from tests.docs.pages import tracked
from thinwire.plugins import ROOT

CELL = "rows/small/mine/w4/seed0"
IN_PYTHON = f"""
import thinwire
run, tidy = thinwire.run("first", "{CELL}"), thinwire.load()
assert set(tidy.runs.method) == set(tidy.curves.method) == set(tidy.traffic.method)
print(run.status, sorted(set(tidy.runs.method)))
"""
# What the environment of the tests has beside thinwire, whose editable installation is not among it.
PACKAGES = f"{sysconfig.get_path('purelib')}\nimport declare_torchvision_operators\n"


def call(folder, *command):
    """Run a command in a folder, without what leads Python to this checkout."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [*map(str, command)], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel, which is built from a source distribution."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in tracked():
        if not name.startswith("results/") or name.endswith("/comparisons.csv"):
            (folder / "project" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / "project" / name)
    build = "import setuptools.build_meta as build; print(build.build_{}({!r}))"
    sources = call(folder / "project", sys.executable, "-c", build.format("sdist", str(folder)))
    with tarfile.open(folder / succeeded(sources).stdout.split()[-1]) as archive:
        archive.extractall(folder, filter="data")
        unpacked = folder / archive.getnames()[0]
    made = call(unpacked, sys.executable, "-c", build.format("wheel", str(folder)))
    return folder / succeeded(made).stdout.split()[-1]


def installed(wheel, folder):
    """The folder of programs of a new environment, which has the wheel and the packages of these tests."""
    venv.create(folder)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "others.pth").write_text(PACKAGES)
    pip = (sys.executable, "-m", "pip", "--python", folder / "bin/python", "install", "--quiet")
    succeeded(call(folder, *pip, "--no-deps", "--no-index", wheel))
    return folder / "bin"


@pytest.fixture(scope="module")
def programs(wheel, tmp_path_factory):
    return installed(wheel, tmp_path_factory.mktemp("venv"))


@pytest.mark.slow
def test_plug_ins_are_written_checked_run_and_reported_in_an_empty_folder(programs, tmp_path):
    def thinwire(*words):
        return succeeded(call(tmp_path, programs / "thinwire", *words)).stdout

    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/__init__.py").touch()  # of another project
    for kind, name in (("method", "mine"), ("model", "small"), ("dataset", "rows"), ("suite", "first")):
        said = thinwire("new", kind, name)
    assert said.splitlines()[1:] == ["  thinwire data rows", f"  thinwire run first {CELL}"]
    checked = json.loads(thinwire("check", "mine", "--json"))
    assert checked["method"] == str(tmp_path / "methods/mine.py")
    assert all(checked[what] is True for what in ("keeps", "equality", "bytes", "determinism"))
    thinwire("check", "mine", "--processes", "-k", "same_bits_every_time")
    thinwire("data", "rows")
    thinwire("run", "first", CELL)
    thinwire("train", "first", "rows/small/w4/seed0")
    thinwire("collect", "first", "--only", "repetitions=1")
    said = succeeded(call(tmp_path, programs / "python", "-c", IN_PYTHON)).stdout
    assert said.splitlines()[-1] == "done ['mine', 'ssgd']"
    thinwire("report", "first")
    table = pd.read_csv(tmp_path / "results/tables/first/summary.csv").set_index("method")
    assert table.done["mine"] == 1
    assert table.accuracy_mean_percent["mine"] > 50


@pytest.mark.slow
def test_it_has_what_plan_quotes_and_what_the_paper_is_made_from(programs, tmp_path):
    program = """
from thinwire.publish.paper.declarations import read
from thinwire.report.plan_table import Validated, of_methods
assert Validated.read() and of_methods() and read()
"""
    succeeded(call(tmp_path, programs / "python", "-c", program))


@pytest.mark.slow
def test_the_oldest_versions_that_are_allowed_work_together(wheel, tmp_path, monkeypatch):
    """The lock has the newest of its day. This needs the internet, but for torch: others are gigabytes."""
    pytest.importorskip("uv", reason="pip takes minutes")
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:xdist")  # which users of `thinwire check` may not have
    programs = installed(wheel, tmp_path / "venv")
    lines = (ROOT / "envs/requirements.in").read_text().splitlines()
    needed = [line for line in lines if line and not line.startswith("#")]
    allowed = [re.match(r"(\S+?)>=([\d.]+)", line).groups() for line in needed]
    oldest = [f"{name}=={version}" for name, version in allowed if not name.startswith("torch")]
    uv = (sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", programs / "python")
    succeeded(call(tmp_path, *uv, *oldest))

    def thinwire(*words):
        return succeeded(call(tmp_path, programs / "thinwire", *words)).stdout

    thinwire("new", "method", "mine")
    thinwire("check", "mine")
    thinwire("new", "suite", "first")
    thinwire("data", "digits")
    thinwire("run", "first", "digits/cnn/mine/w4/seed0")
    snakemake = (programs / "snakemake", "--snakefile", ROOT / "Snakefile", "--config", "suites=first")
    succeeded(call(tmp_path, *snakemake, "repetitions=1"))
    table = pd.read_csv(tmp_path / "results/tables/first/summary.csv").set_index("method")
    assert table.done["mine"] == table.done["ssgd"] == 1
    assert (tmp_path / "results/index.html").is_file()
