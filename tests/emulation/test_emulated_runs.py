"""Real runs on emulated clusters: the same results as on processes, and the bytes that the ledgers have."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import pandas as pd
import pytest

from tests import waiting
from tests.commands import succeeded
from tests.faults import sandbox
from tests.workflow.conftest import HELD, HELD_EPOCHS, Project
from thinwire.records import record
from thinwire.traffic.wire_bytes import HEADERS, PAYLOAD

pytestmark = pytest.mark.slow

# A gradient of 2.3 MB, in one message.
LARGE = """
title: Large messages
seed: 1
repetitions: 1
datasets: [digits]
models: {vgg: {options: {width: 16, batch_norm: false, dropout: 0.0}}}
methods: {ssgd: {options: {bucket_mb: 100.0}}}
workers: [{workers: 2, nodes: 2}]
recipe: {epochs: 2, batch: 128, batch_per: run, optimizer: {lr: 0.1}}
transport: emulated
cluster: emulated_1g
"""
CELL, SMALL_CELL = "digits/vgg/ssgd/w2n2/seed0", "digits/cnn/ssgd/w2n2/seed0"


@pytest.fixture(scope="module")
def project(tmp_path_factory, emulable):
    made = Project(tmp_path_factory.mktemp("emulated") / "project")
    made.write("config/large.yaml", LARGE)
    assert made.python("thinwire", "data", "digits").returncode == 0
    return made


@pytest.fixture(scope="module")
def folder(project):
    succeeded(project.python("thinwire", "run", "large", CELL))
    return project.folder / "results/runs/large" / CELL


def test_the_curve_and_the_traffic_are_those_of_a_run_on_processes(project, folder):
    assert project.python("thinwire", "run", "large", CELL, "--transport", "processes").returncode == 0
    other = project.folder / "results/by_hand/runs/large" / CELL
    assert record.read(other / record.RUN).kind == "measured"
    for name in (record.CURVE, record.TRAFFIC):
        mine, theirs = (pd.read_parquet(place / name) for place in (folder, other))
        seconds = [column for column in mine if column.endswith("_seconds")]
        pd.testing.assert_frame_equal(
            mine.drop(columns=seconds), theirs.drop(columns=seconds), check_exact=True
        )


def test_the_links_carry_the_bytes_of_the_ledgers_and_headers(folder):
    require_bytes_of_ledgers_and_headers(folder)


def require_bytes_of_ledgers_and_headers(folder):
    made = record.read(folder / record.RUN)
    counted = made.provenance["emulation"]["training"]
    assert sum(counted["ledger_bytes"]) == made.result.traffic.between_nodes_bytes * 2
    payload = sum(counted["ledger_bytes"])
    headers = payload / PAYLOAD * HEADERS  # the receiver acknowledges at most every second frame
    assert payload + headers <= sum(counted["interface_bytes"]) <= payload + 1.5 * headers


def test_so_do_links_with_a_latency_which_the_run_has_measured(project):
    succeeded(project.python("thinwire", "emulate", "large", CELL, "--cluster", "wan_200m_50ms"))
    made = project.folder / "results/emulated/wan_200m_50ms/runs/large" / CELL
    require_bytes_of_ledgers_and_headers(made)
    calibration = record.read(made / record.RUN).provenance["emulation"]["calibration"]
    assert min(calibration["round_trip_seconds"]) >= 50e-3


def test_the_record_says_that_it_is_emulated_and_on_which_links(folder):
    made = record.read(folder / record.RUN)
    assert made.kind == "emulated"
    assert made.cell["cluster"]["name"] == "emulated_1g"
    emulation = made.provenance["emulation"]
    assert len(emulation["calibration"]["payload_bytes_per_second"]) == 2
    assert [sum_["size_bytes"] for sum_ in emulation["calibration"]["all_reduce"]] == [65_536, 12_500_000]
    assert emulation["crowding"]["ranks_per_core"] == 2 / len(os.sched_getaffinity(0))


def test_another_description_of_the_cluster_is_another_cell(project, folder):
    path = project.folder / "config/clusters/emulated_1g.yaml"
    text = path.read_text()
    path.write_text(text.replace("1000", "900"))
    said = project.python("thinwire", "cells", "large").stdout
    path.write_text(text)
    assert "out of date: made with" in said
    assert "done" in project.python("thinwire", "cells", "large").stdout


def test_a_cell_of_another_suite_is_emulated_apart_from_its_records(project):
    project.suite("tiny_nodes", "{ssgd: }", epochs=1, workers="[2, {workers: 2, nodes: 2}]")
    command = ("thinwire", "emulate", "tiny_nodes", SMALL_CELL, "--cluster", "emulated_100m")
    succeeded(project.python(*command))
    made = project.folder / "results/emulated/emulated_100m/runs/tiny_nodes" / SMALL_CELL
    assert record.read(made / record.RUN).kind == "emulated"
    again = project.python(*command).stdout
    assert "finished before" in again
    assert f"`{' '.join(command)} --again`" in again


def test_what_cannot_be_emulated_is_refused_in_a_sentence(project):
    project.suite("refused", "{ssgd: }", epochs=1, workers="[2]")
    cell = "digits/cnn/ssgd/w2/seed0"
    run = project.python("thinwire", "emulate", "refused", cell, "--cluster", "emulated_1g")
    assert run.returncode == 2
    assert "its 2 workers are on one node and use no link" in run.stderr
    assert "Traceback" not in run.stderr


def networks(*processes):
    """The network namespaces that these processes are in or hold."""
    found = set()
    for pid in processes:
        with suppress(OSError):
            for link in (Path(f"/proc/{pid}/ns/net"), *Path(f"/proc/{pid}/fd").iterdir()):
                with suppress(OSError):
                    found |= set(re.findall(r"^net:\[\d+\]$", os.readlink(link)))
    return found


def all_networks():
    return networks(*(path.name for path in Path("/proc").glob("[0-9]*")))


def test_nothing_is_left_of_a_run_that_is_killed(project):
    project.write("methods/held.py", HELD)
    project.suite("held", "{held: , ssgd: }", epochs=HELD_EPOCHS, workers="[{workers: 4, nodes: 2}]")
    interfaces = os.listdir("/sys/class/net")
    cell = "digits/cnn/held/w4n2/seed0"
    with project.held("thinwire", "emulate", "held", cell, "--cluster", "emulated_1g") as process:
        own = networks(process.pid, *sandbox.children(process.pid)) - {os.readlink("/proc/self/ns/net")}
        assert len(own) == 3  # two nodes and the bridge
    # At the end of the block the process was killed by SIGKILL, and nobody is left.
    waiting.until("the namespaces are gone", lambda: not own & all_networks())
    assert os.listdir("/sys/class/net") == interfaces


# ---- A user who is not root.

NOBODY = 65534
AS_NOBODY = ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
MAKES_A_USER_NAMESPACE = "from thinwire.emulation import linux; linux.begin_user()"
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
def without_root(emulable):
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


def test_a_run_without_root_sends_its_bytes_over_the_links(without_root):
    for arguments in (("data", "digits"), ("emulate", "tiny_nodes", SMALL_CELL, "--cluster", "emulated_1g")):
        succeeded(as_nobody(without_root, "-m", "thinwire", *arguments))
    folder = without_root.folder / "results/emulated/emulated_1g/runs/tiny_nodes" / SMALL_CELL
    assert folder.stat().st_uid == NOBODY
    made = record.read(folder / record.RUN)
    assert made.kind == "emulated"
    counted = made.provenance["emulation"]["training"]
    assert len(counted["ledger_bytes"]) == 2
    assert all(0 < own < sent for own, sent in zip(counted["ledger_bytes"], counted["interface_bytes"]))
