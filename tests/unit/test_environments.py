"""The environment has the versions of the lock, and `make` sets it up once and removes what it may."""

import fcntl
import re
import shutil
import subprocess

import pytest
import yaml

from thinwire.plugins import ROOT


def name(requirement):
    return re.match(r"[A-Za-z0-9._-]+", requirement).group().lower().replace("_", "-")


def locked():
    lines = (ROOT / "envs/requirements.lock").read_text().splitlines()
    pins = [line.split()[0] for line in lines if "==" in line and not line.startswith((" ", "#"))]
    found = {}
    for pin in pins:  # a package may have one version for each version of Python
        found.setdefault(name(pin), set()).add(pin.split("==")[1].split("+")[0])
    return found


def asked():
    lines = (ROOT / "envs/requirements.in").read_text().splitlines()
    return [name(line) for line in lines if line.strip() and not line.startswith("#")]


def conda():
    return yaml.safe_load((ROOT / "envs/thinwire.yaml").read_text())["dependencies"]


def test_conda_has_what_is_asked_for_in_the_versions_of_the_lock():
    (pip,) = (entry["pip"] for entry in conda() if isinstance(entry, dict))
    pins = dict(pin.split("==") for pin in pip)
    assert sorted(pins) == sorted(asked())
    # torch is installed by itself, for the device at hand.
    torch = re.findall(r"^torch==(\S+)", (ROOT / "envs/develop.in").read_text(), re.MULTILINE)
    for package, version in pins.items():
        assert version in {**locked(), "torch": torch}[package]


def test_the_container_has_the_python_of_conda_and_no_version_beside_the_lock():
    text = (ROOT / "envs/thinwire.def").read_text()
    (python,) = (entry for entry in conda() if str(entry).startswith("python="))
    assert f"From: python:{python.removeprefix('python=')}-slim" in text
    _, *installed = re.findall(r"^ *pip install .*? (?:-r )?(\S+)$", text, re.MULTILINE)
    assert installed == ["requirements.lock"]
    assert not re.search(r"==\d", text)


def test_everything_in_the_lock_has_a_digest():
    text = (ROOT / "envs/requirements.lock").read_text()
    entries = [entry for entry in re.split(r"\n(?=[A-Za-z0-9])", text) if "==" in entry.splitlines()[0]]
    assert len(entries) > 50
    assert all("--hash=sha256:" in entry for entry in entries)


@pytest.mark.parametrize(
    ("target", "answer", "left"),
    [
        ("clean", "", {"results", "runs", "reference", "summary.csv"}),
        ("clean-results", "", {".venv", "results", "runs", "reference", "summary.csv"}),
        ("clean-results", "n\n", {".venv", "results", "runs", "reference", "summary.csv"}),
        ("clean-results", "y\n", {".venv", "results", "reference", "summary.csv"}),
    ],
)
def test_results_are_removed_by_their_own_target_and_only_after_a_question(tmp_path, target, answer, left):
    shutil.copy(ROOT / "Makefile", tmp_path)
    for folder in (".venv", "results/runs", "results/reference"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "results/reference/summary.csv").touch()
    subprocess.run(["make", target], cwd=tmp_path, input=answer, text=True, capture_output=True, check=False)
    assert {path.name for path in tmp_path.rglob("*")} - {"Makefile"} == left


def test_a_second_set_up_waits_for_the_first(tmp_path):
    """Each would remove what the other installs."""
    shutil.copytree(ROOT / "envs", tmp_path / "envs")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    with (tmp_path / "envs/setup.sh").open() as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        with subprocess.Popen([tmp_path / "envs/setup.sh"], stderr=subprocess.PIPE, text=True) as second:
            assert second.stderr.readline() == "setup: waiting for another set-up of this checkout\n"
            second.kill()
    assert not (tmp_path / ".venv").exists()
