"""Processes outside a run cannot affect it: not its store, not its groups, not from another network."""

import asyncio
import errno
import os
import re
import select
import socket
import stat
import struct
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from datetime import timedelta
from pathlib import Path

import pandas as pd
import pytest
import torch.distributed as dist
from torch._C._distributed_c10d import TCPStore

from tests import processes
from tests.launch import listening_sockets, nonsense
from tests.workflow.conftest import Project
from thinwire.config.expand_suite import cell
from thinwire.emulation.network import INTERFACE, Network
from thinwire.errors import ResourceError, UserError
from thinwire.launch import secret
from thinwire.launch.heartbeat import ALARM, BEAT_SECONDS
from thinwire.train.result_folders import secret_file
from thinwire.transport import (
    closed_listeners,
    framing,
    handshake,
    listening,
    network_interface,
    rendezvous,
    store_client,
    store_server,
)
from thinwire.transport.connection_errors import ConnectionLost
from thinwire.transport.rank_placement import Placement
from thinwire.transport.rendezvous import store_of
from thinwire.transport.store_client import NotThisRun, RunStore
from thinwire.transport.store_server import StoreServer

SECRET, WRONG = b"s" * 32, b"w" * 32


class Served:
    """A store that is served in this process."""

    def __init__(self):
        listener = listening.on_loopback()
        self.host, self.port = listener.getsockname()[:2]
        self.server = StoreServer([listener], SECRET)

    def client(self, known=SECRET, seconds=20.0):
        return RunStore(self.host, self.port, known, seconds)

    def connection(self):
        return socket.create_connection((self.host, self.port), timeout=20)


@pytest.fixture
def served():
    return Served()


def test_notes_are_kept_for_all_ranks(served):
    one, other = served.client(), served.client()
    one.set("words", "a ä")
    one.set("bytes", b"\0\xff" * 100_000)
    assert other.get("words") == "a ä".encode()
    assert other.get("bytes") == b"\0\xff" * 100_000
    assert [one.add("came", 1), other.add("came", 2), one.add("came", 0)] == [1, 3, 3]
    assert other.check(["words", "came"])
    assert not other.check(["words", "nothing"])
    assert other.getNumKeys() == 3
    assert (one.deleteKey("words"), one.deleteKey("words")) == (True, False)
    assert not other.check(["words"])


def test_a_wait_for_a_note_returns_when_the_note_arrives(served):
    waiting = served.client()
    with ThreadPoolExecutor(2) as pool:
        got = pool.submit(waiting.get, "late")
        waited = pool.submit(served.client().wait, ["late", "later"])
        served.client().set("late", "here")
        assert got.result(20) == b"here"
        served.client().set("later", "")
        waited.result(20)


def test_a_note_that_never_arrives_is_an_error_and_does_not_answer_the_next_request(served):
    one = served.client()
    with pytest.raises(dist.DistStoreError, match=r"wait nothing was not answered within 0 s"):
        one.wait(["nothing"], timedelta(milliseconds=50))
    began = time.monotonic()
    with pytest.raises(dist.DistStoreError, match="wait nothing was not answered within"):
        one.wait(["nothing"], timedelta(0))
    assert time.monotonic() - began < 10, "this is no time-out of its own"
    one.set("nothing", "now")
    assert one.get("nothing") == b"now"


class Refusing(socket.socket):
    """A listener of a process in which too many files are open."""

    def accept(self):
        raise too_many_files()


def too_many_files():
    return OSError(errno.EMFILE, os.strerror(errno.EMFILE))


@pytest.mark.parametrize("begins", [True, False])
def test_rank_0_with_too_many_open_files_says_so_at_once(monkeypatch, caplog, begins):
    def fails():
        raise too_many_files()

    monkeypatch.setattr(store_client, "PROVING_SECONDS", 0.2)
    if not begins:
        monkeypatch.setattr(asyncio, "new_event_loop", fails)
    with Refusing() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        here = Placement(0, 2, 0, "n", *listener.getsockname(), "fork", SECRET, listener)
        with pytest.raises(ResourceError, match=r"run short of something \(Too many open files\)"):
            store_of(here, 20, is_master=True)
    assert caplog.text == ""


def test_a_process_that_was_frozen_during_a_request_has_not_used_its_time(served):
    """When it wakes, its time-out is over, but rank 0 was frozen too and has not answered yet."""
    one = served.client(seconds=8)

    class Frozen:
        """A connection on which the first part of the time-out passes at once."""

        def __init__(self, connection):
            self.connection, self.froze = connection, False

        def recv(self, size):
            if not self.froze:
                self.froze = True
                raise TimeoutError
            return self.connection.recv(size)

        def __getattr__(self, name):
            return getattr(self.connection, name)

    one._socket = Frozen(one._socket)
    assert one.add("came", 1) == 1
    assert one._socket.froze


def test_without_rank_0_there_is_an_error_that_the_watch_knows():
    listener = listening.on_loopback()
    with ThreadPoolExecutor(1) as pool:
        connected = pool.submit(RunStore, *listener.getsockname()[:2], SECRET, 20)
        rank_0, _ = listener.accept()
        own = handshake.challenge()
        rank_0.sendall(own)
        received = rank_0.recv(64, socket.MSG_WAITALL)
        challenges = own + received[:32]
        assert handshake.proves(received[32:], SECRET, handshake.RANK, challenges)
        rank_0.sendall(handshake.answer(SECRET, handshake.STORE, challenges))
        store = connected.result(20)
    rank_0.close()
    listener.close()
    with pytest.raises(RuntimeError, match="the store of the run is gone"):
        store.check(["anything"])


@pytest.mark.parametrize("content", nonsense.NONSENSE.values(), ids=nonsense.NONSENSE)
def test_a_client_without_a_proof_changes_nothing(served, content):
    rank = served.client()
    rank.set("mine", "1")
    with nonsense.send(served.host, served.port, content):
        assert rank.get("mine") == b"1"
        assert served.client().getNumKeys() == 1


def test_a_wrong_secret_changes_nothing(served):
    with pytest.raises(NotThisRun):
        served.client(WRONG, seconds=0.2)
    # torch's own store lets clients list keys and set any; a run could be ended that way.
    with pytest.raises(RuntimeError):
        TCPStore(served.host, served.port, is_master=False, timeout=timedelta(seconds=1)).set(ALARM, "")
    with pytest.raises(UserError, match=r"rank 1 on n1 reached \S+, but what listens there is not rank 0 of"):
        rendezvous.store_of(placement(1, served.host, served.port, known=WRONG), 0.2)
    assert served.client().getNumKeys() == 0


def test_a_replayed_proof_is_refused(served):
    with served.connection() as first, served.connection() as second:
        own, overheard = first.recv(32, socket.MSG_WAITALL), handshake.challenge()
        overheard += handshake.answer(SECRET, handshake.RANK, own + overheard)
        first.sendall(overheard)
        assert len(first.recv(32, socket.MSG_WAITALL)) == 32
        second.sendall(overheard + framing.pack([b"set", ALARM.encode(), b""]))
        assert second.recv(32, socket.MSG_WAITALL)
        with suppress(ConnectionResetError):
            assert second.recv(32) == b""
    assert served.client().getNumKeys() == 0


def test_connections_without_a_proof_do_not_use_up_all_files(served):
    many = [served.connection() for _ in range(3 * store_server.MOST_UNPROVED)]
    assert served.client().getNumKeys() == 0
    alive = 0
    for connection in many:
        with connection, suppress(ConnectionResetError):
            connection.recv(32, socket.MSG_WAITALL)
            connection.settimeout(0.01)
            try:
                alive += connection.recv(1) != b""
            except TimeoutError:
                alive += 1
    assert alive <= store_server.MOST_UNPROVED


def test_a_client_that_sends_nothing_is_disconnected(served, monkeypatch):
    monkeypatch.setattr(store_server, "PROVING_SECONDS", 0.1)
    with served.connection() as silent:
        assert len(silent.recv(32, socket.MSG_WAITALL)) == 32
        assert silent.recv(1) == b""


@pytest.mark.parametrize("how", ["closes", "wrong proof", "gives the proof back"])
def test_a_false_rank_0_is_refused(how):
    """It listens at the port before rank 0 does."""
    false = listening.on_loopback()

    def pretend():
        connection, _ = false.accept()
        with connection:
            if how == "closes":
                return
            connection.sendall(handshake.challenge())
            received = connection.recv(64, socket.MSG_WAITALL)
            connection.sendall(received[32:] if how == "gives the proof back" else handshake.challenge())
            connection.recv(1)

    thread = threading.Thread(target=pretend)
    thread.start()
    with pytest.raises(NotThisRun):
        RunStore(*false.getsockname()[:2], SECRET, 0.01 if how == "closes" else 0.5)
    thread.join()
    false.close()


def test_rank_0_ending_during_the_rendezvous_is_one_sentence():
    class Gone:
        def add(self, key, amount):
            raise dist.DistNetworkError("the store of the run is gone")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rendezvous, "store_of", lambda *about, **more: Gone())
        with pytest.raises(UserError, match=r"^rank 1 on n1 has lost rank 0: start all of them at once"):
            rendezvous.join(placement(1, "first", 1), 1)


def placement(rank, host, port, known=SECRET):
    return Placement(rank, 2, rank, f"n{rank}", host, port, "test", known)


def test_a_placement_does_not_show_its_secret():
    assert repr(SECRET) not in repr(placement(0, "here", 1))


# Where rank 0 listens.


_PORTS = ExitStack()


@pytest.fixture(scope="module", autouse=True)
def _ports_are_given_back():
    yield
    _PORTS.close()


def free_port():
    return _PORTS.enter_context(processes.reserved_port())


def connects(host, port, seconds=5.0):
    try:
        socket.create_connection((host, port), timeout=seconds).close()
    except OSError:
        return False
    return True


def test_rank_0_listens_at_the_address_of_its_name_alone():
    port = free_port()
    (listener,) = listening.at("127.0.0.2", port)
    with listener:
        assert connects("127.0.0.2", port)
        assert not connects("127.0.0.1", port)


def names(monkeypatch, **addresses):
    """Let names have addresses."""
    real = socket.getaddrinfo

    def look_up(host, *arguments, **more):
        return [one for at in addresses.get(host, [host]) for one in real(at, *arguments, **more)]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)


def test_rank_0_listens_at_those_addresses_that_are_this_hosts(monkeypatch):
    names(monkeypatch, first=["192.0.2.1", "127.0.0.2", "127.0.0.3"])
    listeners = listening.at("first", free_port())
    assert [one.getsockname()[0] for one in listeners] == ["127.0.0.2", "127.0.0.3"]
    server = StoreServer(listeners, SECRET)
    port = listeners[0].getsockname()[1]
    for address in ("127.0.0.2", "127.0.0.3"):
        RunStore(address, port, SECRET, 20).add("came", 1)
    # A rank tries them one after the other: nobody listens at the first.
    names(monkeypatch, first=["127.0.0.4", "127.0.0.2"])
    assert RunStore("first", port, SECRET, 20, server).add("came", 0) == 2


def test_rank_0_listens_everywhere_if_its_name_is_the_loopback(monkeypatch):
    names(monkeypatch, node7=["127.0.1.1"])
    listeners = listening.at("node7", free_port())
    assert listeners[0].getsockname()[0] == "0.0.0.0"
    for host in ("localhost", "127.0.0.1"):
        listeners += (local := listening.at(host, free_port()))
        assert all(listening.is_loopback(one.getsockname()[0]) for one in local)
    for listener in listeners:
        listener.close()


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
def test_a_host_with_ipv6_alone(monkeypatch):
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no address of IPv6 here")
    port = free_port()
    with listening.at("::1", port)[0] as listener:
        StoreServer([listener], SECRET)
        store = RunStore("::1", port, SECRET, 20)
        assert store.add("came", 1) == 1
        assert network_interface.of_address(store.address) == "lo"
    monkeypatch.setattr(listening, "_LOOPBACK", ("192.0.2.1", "::1"))
    with listening.on_loopback() as listener:
        assert listener.getsockname()[0] == "::1"


def test_rank_0_that_cannot_listen_is_one_sentence(monkeypatch):
    here = socket.gethostname()
    with socket.create_server(("", 0)) as taken:
        port = taken.getsockname()[1]
        message = f"port {port} is taken on {here}: set MASTER_PORT to one that is free"
        with pytest.raises(UserError, match=f"^{re.escape(message)}$"):
            rendezvous.store_of(placement(0, "127.0.0.1", port), 1, is_master=True)
    message = f"rank 0 on {here} cannot listen at other (192.0.2.1), which is no address of this host: set "
    names(monkeypatch, other=["192.0.2.1"])
    with pytest.raises(UserError, match=f"^{re.escape(message)}"):
        rendezvous.store_of(placement(0, "other", free_port()), 1, is_master=True)
    with pytest.raises(UserError, match=r"knows no host 'nobody\.invalid' \(.+\): set MASTER_ADDR to a name"):
        rendezvous.store_of(placement(0, "nobody.invalid", free_port()), 1, is_master=True)
    with pytest.raises(UserError, match=r"rank 1 on n1 could not reach rank 0 at nobody\.invalid"):
        rendezvous.store_of(placement(1, "nobody.invalid", free_port()), 0.1)


def test_an_interface_is_found_by_its_address():
    assert network_interface.of_address("127.0.0.1") == "lo"
    assert network_interface.of_address("192.0.2.1") is None


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_closed_listener_keeps_its_connections(host):
    try:
        (listener,) = listening.at(host, free_port())
    except UserError:
        pytest.skip("no IPv6 here")
    with listener, socket.create_connection(listener.getsockname()[:2]) as one, listener.accept()[0] as other:
        assert listener.fileno() in closed_listeners.listening()
        assert one.fileno() not in closed_listeners.listening()
        closed_listeners.shut({listener.fileno()})
        assert not connects(*listener.getsockname()[:2], seconds=0.2)
        one.sendall(b"on")
        assert other.recv(2) == b"on"
        other.sendall(b"and on")
        assert one.recv(6) == b"and on"


# The secret of ranks that srun or torchrun has started.


@pytest.fixture(scope="module")
def demo():
    return cell("demo", "digits/cnn/ssgd/w4/seed0")


def test_all_ranks_of_a_launch_know_one_secret(tmp_path, demo):
    with ThreadPoolExecutor(16) as pool:
        ranks = pool.map(lambda _: secret.of_run(tmp_path, demo, "srun 7.0"), range(16))
    known = set(ranks)
    assert len(known) == 1
    assert len(known.pop()) == 32
    path = secret_file(tmp_path, os.geteuid())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert secret.of_run(tmp_path, demo, "srun 7.1") != secret.of_run(tmp_path, demo, "srun 7.0")
    assert secret.of_run(tmp_path / "other", demo, "srun 7.0") != secret.of_run(tmp_path, demo, "srun 7.0")


def test_an_invalid_secret_is_refused(tmp_path, demo, monkeypatch):
    monkeypatch.setattr(secret, "_WRITING_SECONDS", 0.1)
    secret.of_run(tmp_path, demo, "srun 7.0")
    path = secret_file(tmp_path, os.geteuid())
    path.chmod(0o640)
    with pytest.raises(
        UserError, match=r"has mode 640, so that others can read .* remove it, and start again"
    ):
        secret.of_run(tmp_path, demo, "srun 7.0")
    path.chmod(0o600)
    for half in ("", path.read_text()[:-1], "x" * 64, "\xff"):
        path.write_text(half)
        with pytest.raises(UserError, match="is incomplete: remove it, and start again"):
            secret.of_run(tmp_path, demo, "srun 7.0")
    path.unlink()
    path.mkdir()
    with pytest.raises(UserError, match=r"cannot be read \(Is a directory\)"):
        secret.of_run(tmp_path, demo, "srun 7.0")


# A whole run, and gloo's connections.

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


@pytest.fixture(scope="module")
def link():
    """Two networks: the run is in the first, and a stranger in the second."""
    try:
        made = Network(2, 1e9)
    except UserError as error:
        yield str(error)
    else:
        yield made
        made.close()


class Attacked:
    """A run on one machine that strangers have met half-way."""

    def __init__(self, folder, link):
        self.project = Project(folder / "project")
        self.gate, self.link = folder / "gate", link
        self.gate.mkdir()
        self.project.write("methods/gated.py", GATED)
        self.project.suite(
            "gated",
            f"{{ssgd: , gated: {{options: {{gate: {self.gate}}}}}}}",
            epochs=1,
            workers="[{workers: 4, nodes: 2}]",
            more="transport: processes\n",
        )
        for results in ("attacked", "quiet"):
            assert self.project.python("thinwire", "data", "digits", "--results", results).returncode == 0
        command = [sys.executable, "-m", "thinwire", "run", "gated", CELL, "--results", "attacked"]
        # What a user has set for his cluster does not open a run on one machine to the network.
        inside = {} if isinstance(link, str) else {"GLOO_SOCKET_IFNAME": INTERFACE}
        run = subprocess.Popen(
            command,
            cwd=self.project.folder,
            env=self.project.environment() | inside,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=lambda: self.be_in_network(0),
        )
        try:
            while not all((self.gate / str(rank)).exists() for rank in range(4)):
                assert run.poll() is None, run.communicate()[0]
                time.sleep(0.05)
            self.listens = {
                address for pid in [run.pid, *children(run.pid)] for address in listening_sockets.of(pid)
            }
            self.reached_from_outside = self.in_network(1, lambda: self.reached(self.link.host))
            self.reached_from_inside = self.in_network(0, lambda: self.reached("127.0.0.1"))
            self.in_network(0, self.attack)
        finally:
            (self.gate / "go").touch()
            self.output, _ = run.communicate(timeout=200)
        self.code = run.returncode

    def be_in_network(self, side):
        if not isinstance(self.link, str):
            self.link.enter(side)

    def in_network(self, side, function):
        """Call a function there, in a thread, since a thread has its own namespace; returns its result."""
        if isinstance(self.link, str) and side != 0:
            return None
        with ThreadPoolExecutor(1, initializer=self.be_in_network, initargs=(side,)) as pool:
            return pool.submit(function).result(100)

    def reached(self, host):
        """The ports of the run that accept connections from this network, and one that is open to all."""
        with self.in_network(0, lambda: socket.create_server(("", 0))) as control:
            assert connects(host, control.getsockname()[1])
        return {port for _, port in self.listens if connects(host, port, seconds=0.2)}

    def attack(self):
        """Attack the run as another user of the machine could, with all that such a user knows."""
        connections = []
        for port in self.reached_from_inside:
            connections += [
                nonsense.send("127.0.0.1", port, content) for content in nonsense.NONSENSE.values()
            ]
            with suppress(RuntimeError):
                TCPStore("127.0.0.1", port, timeout=timedelta(milliseconds=100)).set(ALARM, "")
            with suppress(OSError):
                RunStore("127.0.0.1", port, WRONG, 0.1).set(ALARM, "")
        # Long enough for every rank to have looked for an alarm.
        time.sleep(2 * BEAT_SECONDS)
        for connection in connections:
            connection.close()


@pytest.fixture(scope="module")
def attacked(tmp_path_factory, link):
    return Attacked(tmp_path_factory.mktemp("attacked"), link)


def children(pid):
    return [
        int(child)
        for task in Path(f"/proc/{pid}/task").iterdir()
        for child in (task / "children").read_text().split()
    ]


def test_a_run_on_one_machine_listens_on_the_loopback_alone(attacked):
    assert len(attacked.listens) > 4  # the store, and gloo in every rank
    assert {address for address, _ in attacked.listens} == {"127.0.0.1"}


def test_a_run_on_one_machine_is_unreachable_from_another_network(attacked):
    if isinstance(attacked.link, str):
        pytest.skip(attacked.link)
    assert attacked.reached_from_outside == set()


def test_on_the_machine_itself_only_the_store_is_reached(attacked):
    """gloo's listeners are closed, because its ranks are connected."""
    assert len(attacked.reached_from_inside) == 1


def test_strangers_on_the_same_machine_do_not_change_a_run(attacked):
    assert attacked.code == 0, attacked.output
    quiet = attacked.project.python("thinwire", "run", "gated", CELL, "--results", "quiet")
    assert quiet.returncode == 0, quiet.stderr
    ours, theirs = (
        pd.read_parquet(attacked.project.folder / results / "runs/gated" / CELL / "curve.parquet")
        for results in ("quiet", "attacked")
    )
    timed = [name for name in ours if name.endswith("_seconds")]
    pd.testing.assert_frame_equal(ours.drop(columns=timed), theirs.drop(columns=timed), check_exact=True)


def test_no_file_of_a_run_has_its_secret(attacked):
    """Ranks with one parent have no file with the secret; other ranks have it in an unpublished folder."""
    assert list(attacked.project.folder.rglob("*secret*")) == [
        attacked.project.folder / "thinwire/launch/secret.py"
    ]


# gloo's preamble is the length, what it is, slot, offset, length and offset there.
PREAMBLE, TENSOR, READY_TO_SEND, READY_TO_RECEIVE = struct.Struct("<6q"), 1, 2, 3


def connect_to_a_stranger(folder):
    """Rank 1 opens a group after a stranger has connected to rank 0 in its place. Returns each outcome."""
    folder, rank = Path(folder), dist.get_rank()
    # Which of two ranks listens to the other depends on their ports.
    for attempt in range(64):
        opened = folder / str(attempt)
        if rank == 1:
            while not opened.exists():
                time.sleep(0.01)
        else:
            before = listening_sockets.of()
            over = threading.Event()
            stranger = threading.Thread(target=_take_the_place, args=(before, opened, over), daemon=True)
            stranger.start()
        try:
            rendezvous.open_group(None, "gloo")
        except (UserError, ConnectionLost) as error:
            (folder / f"rank {rank}").write_text(f"{type(error).__name__}: {error}")
            # As a rank does: the other one need not wait for a proof that does not come.
            os._exit(1)
        if rank == 0:
            over.set()
            stranger.join()


def _take_the_place(before, opened, over):
    """Connect to rank 0 in the place of rank 1, and send a tensor as gloo does."""
    while not (new := listening_sockets.of() - before):
        time.sleep(0.01)
    (address,) = new
    connections = [socket.create_connection(address) for _ in range(4)]
    for number, connection in enumerate(connections):
        connection.sendall(struct.pack("<q", number))
    opened.touch()
    while not (ready := select.select(connections, [], [], 0.05)[0]) and not over.is_set():
        pass
    for connection in ready:
        received = connection.recv(PREAMBLE.size, socket.MSG_WAITALL)
        if len(received) == PREAMBLE.size:
            _, _, slot, _, _, _ = PREAMBLE.unpack(received)
            size = handshake.BYTES
            for what in (READY_TO_SEND, READY_TO_RECEIVE):
                connection.sendall(PREAMBLE.pack(PREAMBLE.size, what, slot, 0, size, 0))
            connection.sendall(PREAMBLE.pack(PREAMBLE.size + size, TENSOR, slot, 0, size, 0) + b"x" * size)
    over.wait()


def test_a_stranger_in_a_ranks_place_in_gloo_is_detected(tmp_path):
    with pytest.raises(processes.Failed, match="died"):
        processes.run(connect_to_a_stranger, 2, str(tmp_path))
    assert (tmp_path / "rank 0").read_text() == (
        "UserError: a process that is not part of this run has connected to rank 0 in the place of rank 1: "
        "start the run again, where no stranger can reach it"
    )
