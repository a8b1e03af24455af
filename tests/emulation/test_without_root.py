"""An emulated run of a user who is not root: it sends what its ledgers say, and ends."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.workflow.conftest import Project
from thinwire.records import record

pytestmark = pytest.mark.slow

NOBODY = 65534
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
CELL = "digits/cnn/ssgd/w2n2/seed0"
MAKES_A_USER_NAMESPACE = "from thinwire.emulation import namespaces; namespaces.begin_user()"
# Far longer than the run takes on a slow machine.
MOST_SECONDS = 240


def as_nobody(project, *arguments):
    """Run Python; it and its forks are killed if they do not end."""
    environment = {**project.environment(), "HOME": str(project.folder), "PYTHONDONTWRITEBYTECODE": "1"}
    command = ["timeout", "--signal=KILL", str(MOST_SECONDS), *AS_NOBODY, sys.executable, *arguments]
    return subprocess.run(
        command, cwd=project.folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def project(emulable):
    if os.geteuid() != 0:
        pytest.skip("all tests of emulation run without root here")
    if not all(map(shutil.which, ("setpriv", "timeout"))):
        pytest.skip("setpriv or timeout is missing, with which another user runs a command")
    # The folders of pytest are closed to other users.
    with tempfile.TemporaryDirectory() as folder:
        made = Project(Path(folder) / "project")
        made.suite("tiny_nodes", "{ssgd: }", epochs=1, workers="[{workers: 2, nodes: 2}]")
        for path in (Path(folder), *Path(folder).rglob("*")):
            os.chown(path, NOBODY, NOBODY)
        tried = as_nobody(made, "-c", MAKES_A_USER_NAMESPACE)
        if tried.returncode:
            said = (tried.stderr.strip().splitlines() or ["no reason given"])[-1]
            pytest.skip(f"user {NOBODY} cannot run Python here, or may make no user namespace: {said}")
        yield made


def test_a_run_without_root_sends_its_bytes_over_the_links(project):
    for arguments in (("data", "digits"), ("emulate", "tiny_nodes", CELL, "--cluster", "emulated_1g")):
        run = as_nobody(project, "-m", "thinwire", *arguments)
        assert run.returncode == 0, run.stdout + run.stderr
    folder = project.folder / "results/emulated/emulated_1g/runs/tiny_nodes" / CELL
    assert folder.stat().st_uid == NOBODY
    made = record.read(folder / record.RUN)
    assert made.kind == "emulated"
    counted = made.provenance["emulation"]["training"]
    assert len(counted["ledger_bytes"]) == 2
    assert all(0 < own < sent for own, sent in zip(counted["ledger_bytes"], counted["interface_bytes"]))
