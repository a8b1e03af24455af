"""The installed package works from any folder, without make and without a clone of the repository."""

import json
import os
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
# What the environment of the tests has beside thinwire, whose editable installation is not among it.
PACKAGES = f"{sysconfig.get_path('purelib')}\nimport declare_torchvision_operators\n"


def call(folder, *command):
    """Run a command in a folder, without what leads Python to this checkout."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        [*map(str, command)], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """The folder of programs of an environment with a wheel, which is built from a source distribution."""
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
    wheel = call(unpacked, sys.executable, "-c", build.format("wheel", str(folder)))
    venv.create(folder / "venv")
    (packages,) = (folder / "venv/lib").glob("python*/site-packages")
    (packages / "others.pth").write_text(PACKAGES)
    pip = (sys.executable, "-m", "pip", "--python", folder / "venv/bin/python", "install", "--quiet")
    succeeded(call(folder, *pip, "--no-deps", "--no-index", folder / succeeded(wheel).stdout.split()[-1]))
    return folder / "venv/bin"


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
    thinwire("report", "first")
    table = pd.read_csv(tmp_path / "results/tables/first/summary.csv").set_index("method")
    assert table.done["mine"] == 1
    assert table.accuracy_mean_percent["mine"] > 50


@pytest.mark.slow
def test_it_has_what_plan_quotes_and_what_the_paper_is_made_from(programs, tmp_path):
    program = """
from thinwire.publish.paper.declarations import read
from thinwire.report.plan_table import Validated
from thinwire.report.rows.known_accuracy import of_methods
assert Validated.read() and of_methods() and read()
"""
    succeeded(call(tmp_path, programs / "python", "-c", program))
