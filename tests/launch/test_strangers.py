"""Nobody else takes part in a run on one machine: not another host, and not another user of the machine."""

import os
import re
import socket
import struct
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pandas as pd
import pytest

from tests.commands import succeeded
from tests.faults import sandbox
from tests.workflow.conftest import Project
from thinwire.base.errors import UserError
from thinwire.emulation.network import INTERFACE, Network
from thinwire.launch.heartbeat import BEAT_SECONDS

pytestmark = pytest.mark.slow

LISTENS = "0A"  # the state in /proc/net/tcp
NOBODY = 65534  # the user id without rights
# What a client of another protocol, or an attacker, may send to a port.
NONSENSE = (b"", b"GET / HTTP/1.1\r\nHost: here\r\n\r\n", bytes(4096), b"\xff" * 4096)
GATED = '''"""SSGD, with a gate in the middle."""

import time
from dataclasses import dataclass
from pathlib import Path

import thinwire


class Method(thinwire.Method):
    @dataclass
    class Config:
        gate: str = ""  # a folder: the ranks say there that they have come, and go on when it has a file "go"

    def sync_gradients(self):
        gate = Path(self.config.gate)
        if self.run.step == 5:
            (gate / str(self.run.world.rank)).touch()
            while not (gate / "go").exists():
                time.sleep(0.01)
        self.run.world.mean(self.run.gradients).wait()
'''
CELL = "digits/cnn/gated/w4n2/seed0"


class Attacked:
    """A run on one machine that strangers have met half-way. It and they are on two networks, if possible."""

    def __init__(self, folder, link):
        self.project = Project(folder / "project")
        self.gate, self.link = folder / "gate", link
        self.gate.mkdir()
        self.project.write("methods/gated.py", GATED)
        methods = f"{{ssgd: , gated: {{options: {{gate: {self.gate}}}}}}}"
        workers = "[{workers: 4, nodes: 2}]"
        self.project.suite("gated", methods, 1, workers, more="transport: processes\n")
        for results in ("attacked", "quiet"):
            assert self.project.python("thinwire", "data", "digits", "--results", results).returncode == 0
        # What a user has set for his cluster does not open a run on one machine to the network.
        chosen = {} if link is None else {"GLOO_SOCKET_IFNAME": INTERFACE}
        run = subprocess.Popen(
            [sys.executable, "-m", "thinwire", "run", "gated", CELL, "--results", "attacked"],
            cwd=self.project.folder,
            env=self.project.environment() | chosen,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=lambda: self.be_in_network(0),
        )
        try:
            while not all((self.gate / str(rank)).exists() for rank in range(4)):
                assert run.poll() is None, run.communicate()[0]
                time.sleep(0.05)
            ranks = [run.pid, *sandbox.children(run.pid)]
            self.listens = {address for pid in ranks for address in listening(pid)}
            if link is not None:
                self.reached = self.in_network(1, self.reached_from_here)
            self.opened = self.in_network(0, lambda: attack_as_another_user(ranks, self.listens))
        finally:
            (self.gate / "go").touch()
            self.output, _ = run.communicate(timeout=200)
        self.code = run.returncode

    def be_in_network(self, side):
        if self.link is not None:
            self.link.enter(side)

    def in_network(self, side, function):
        """Call a function there, in a thread, since a thread has its own namespace; returns its result."""
        with ThreadPoolExecutor(1, initializer=self.be_in_network, initargs=(side,)) as pool:
            return pool.submit(function).result(100)

    def reached_from_here(self):
        """The ports of the run that accept connections, where one that is open to all does."""
        with self.in_network(0, lambda: socket.create_server(("", 0))) as control:
            assert connects(self.link.host, control.getsockname()[1])
        return {port for _, port in self.listens if connects(self.link.host, port, seconds=0.2)}


def connects(host, port, seconds=5.0):
    try:
        socket.create_connection((host, port), timeout=seconds).close()
    except OSError:
        return False
    return True


def listening(process):
    """Addresses and ports at which a process listens, in any network namespace."""
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


@pytest.fixture(scope="module")
def attacked(tmp_path_factory):
    try:
        link = Network(2, 1e9)
    except UserError:
        link = None
    yield Attacked(tmp_path_factory.mktemp("attacked"), link)
    if link is not None:
        link.close()


def test_no_other_host_reaches_a_run_on_one_machine(attacked):
    assert {address for address, _ in attacked.listens} == {"127.0.0.1"}
    if attacked.link is None:
        pytest.skip("this machine cannot emulate a network")
    assert attacked.reached == set()


def test_no_other_user_opens_the_file_in_which_ranks_meet(attacked):
    if os.geteuid() != 0:
        pytest.skip("only root can act as another user")
    assert attacked.opened == 0


def test_nonsense_at_the_ports_of_a_run_does_not_change_it(attacked):
    """It comes after the ranks have connected: before that gloo takes the first who names a rank's number."""
    assert attacked.code == 0, attacked.output
    succeeded(attacked.project.python("thinwire", "run", "gated", CELL, "--results", "quiet"))
    ours, theirs = (
        pd.read_parquet(attacked.project.folder / results / "runs/gated" / CELL / "curve.parquet")
        for results in ("quiet", "attacked")
    )
    timed = [name for name in ours if name.endswith("_seconds")]
    pd.testing.assert_frame_equal(ours.drop(columns=timed), theirs.drop(columns=timed), check_exact=True)
