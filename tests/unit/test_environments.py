"""The conda environment has the versions of the lock, and the lock has all requirements."""

import re

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


def test_conda_has_what_is_asked_for_in_the_versions_of_the_lock():
    content = yaml.safe_load((ROOT / "envs/thinwire.yaml").read_text())
    (pip,) = (entry["pip"] for entry in content["dependencies"] if isinstance(entry, dict))
    pins = dict(pin.split("==") for pin in pip)
    assert sorted(pins) == sorted(asked())
    for package, version in pins.items():
        # torch and torchvision are installed by themselves, for the device at hand.
        assert version in locked().get(package, {version})


def test_everything_in_the_lock_has_a_digest():
    text = (ROOT / "envs/requirements.lock").read_text()
    entries = re.split(r"\n(?=[A-Za-z0-9])", text)
    assert len(entries) > 50
    assert all("--hash=sha256:" in entry for entry in entries if "==" in entry.splitlines()[0])
