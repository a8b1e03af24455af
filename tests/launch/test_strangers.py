"""Nobody else takes part in a run on one machine: not another host, and not another user of the machine."""

import os
import re
import socket
import struct
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pandas as pd
import pytest

from tests.commands import succeeded
from tests.faults import sandbox
from tests.workflow.conftest import HELD, HELD_EPOCHS, Project
from thinwire.launch.heartbeat import BEAT_SECONDS

pytestmark = pytest.mark.slow

LISTENS = "0A"  # the state in /proc/net/tcp
NOBODY = 65534  # the user id without rights
# What a client of another protocol, or an attacker, may send to a port.
NONSENSE = (b"", b"GET / HTTP/1.1\r\nHost: here\r\n\r\n", bytes(4096), b"\xff" * 4096)
CELL = "digits/cnn/held/w4n2/seed0"


@pytest.fixture(scope="module")
def attacked(tmp_path_factory):
    """A run on one machine that strangers have met half-way."""
    project = Project(tmp_path_factory.mktemp("project"))
    project.write("methods/held.py", HELD)
    workers = "[{workers: 4, nodes: 2}]"
    project.suite("gated", "{ssgd: , held: }", HELD_EPOCHS, workers, more="transport: processes\n")
    for results in ("attacked", "quiet"):
        succeeded(project.python("thinwire", "data", "digits", "--results", results))
    with pytest.MonkeyPatch.context() as patch:
        # What a user has set for his cluster does not open a run on one machine to the network.
        patch.setenv("GLOO_SOCKET_IFNAME", "elsewhere")
        with project.run_held("gated", CELL, "attacked") as run:
            ranks = [run.pid, *sandbox.children(run.pid)]
            listens = {address for pid in ranks for address in listening(pid)}
            opened = attack_as_another_user(ranks, listens)
            project.gate.open()
            said = run.communicate(timeout=200)
    return SimpleNamespace(project=project, listens=listens, opened=opened, code=run.returncode, said=said)


def listening(process):
    """Addresses and ports at which a process listens."""
    folder, inodes = Path(f"/proc/{process}"), set()
    for entry in (folder / "fd").iterdir():
        with suppress(OSError):
            inodes.update(re.findall(r"socket:\[(\d+)\]", str(entry.readlink())))
    found = set()
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        with suppress(OSError):
            for line in (folder / "net" / table).read_text().splitlines()[1:]:
                _, local, _, state, *_, inode = line.split()[:10]
                if state == LISTENS and inode in inodes:
                    address, port = local.split(":")
                    words = struct.unpack(f">{len(address) // 8}I", bytes.fromhex(address))
                    packed = struct.pack(f"={len(words)}I", *words)
                    found.add((socket.inet_ntop(family, packed), int(port, 16)))
    return found


def attack_as_another_user(ranks, listens):
    """In a fork without rights, try to open the files of the ranks, and send nonsense to their ports.

    Returns:
        How many files could be opened.
    """
    "host".encode("idna")  # loads what names of hosts need, while this process may read it
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        try:
            if os.geteuid() == 0:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            opened = 0
            for pid in ranks:
                for number in range(64):
                    with suppress(OSError):
                        os.close(os.open(f"/proc/{pid}/fd/{number}", os.O_RDONLY | os.O_NONBLOCK))
                        opened += 1
            connections = [send(*address, content) for address in listens for content in NONSENSE]
            # Long enough for every rank to have looked for an alarm.
            time.sleep(2 * BEAT_SECONDS)
            os.write(writing, f"{opened} {len(connections)}".encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as answer:
        opened, connections = map(int, answer.read().split())
    os.waitpid(child, 0)
    assert connections == len(listens) * len(NONSENSE)
    return opened


def send(host, port, content):
    """Send it over two connections: one is reset at once; the other stays open and is returned."""
    for stays in (False, True):
        connection = socket.create_connection((host, port), timeout=20)
        with suppress(ConnectionError):
            connection.sendall(content)
        if not stays:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
    return connection


def test_no_other_host_reaches_a_run_on_one_machine(attacked):
    assert {address for address, _ in attacked.listens} == {"127.0.0.1"}


def test_no_other_user_opens_the_file_in_which_ranks_meet(attacked):
    if os.geteuid() != 0:
        pytest.skip("only root can act as another user")
    assert attacked.opened == 0


def test_nonsense_at_the_ports_of_a_run_does_not_change_it(attacked):
    """It comes after the ranks have connected: before that gloo takes the first who names a rank's number."""
    assert attacked.code == 0, attacked.said
    succeeded(attacked.project.python("thinwire", "run", "gated", CELL, "--results", "quiet"))
    ours, theirs = (
        pd.read_parquet(attacked.project.folder / results / "runs/gated" / CELL / "curve.parquet")
        for results in ("quiet", "attacked")
    )
    timed = [name for name in ours if name.endswith("_seconds")]
    pd.testing.assert_frame_equal(ours.drop(columns=timed), theirs.drop(columns=timed), check_exact=True)
