"""Emulated links with a latency: what is sent arrives that much later, in order, at the rate of the link."""

import os
import signal
import socket
import threading
import time
from contextlib import closing
from dataclasses import replace
from statistics import median

import pytest

from tests import waiting
from tests.emulation.test_network import in_fork, on_node
from thinwire.base.errors import UserError
from thinwire.config.clusters import load_cluster
from thinwire.config.expand import cells
from thinwire.emulation import delayed_cables, network
from thinwire.emulation.delayed_cables import Cable
from thinwire.emulation.network import Network, address, require_emulable

DELAY = 0.05


def test_what_a_node_sends_is_delayed_in_order_and_what_it_receives_is_not():
    """With sockets in place of devices, which need no root."""
    (node, its_end), (port, bridge) = (socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(2))
    line, until = socket.socketpair()
    ends = Cable(its_end.fileno(), port.fileno())
    for descriptor in ends:
        os.set_blocking(descriptor, False)
    carrier = threading.Thread(target=delayed_cables.pass_on, args=([ends], DELAY, until))
    carrier.start()
    began = time.monotonic()
    for frame in (b"1", b"2"):
        node.send(frame)
    bridge.send(b"answer")
    assert node.recv(100) == b"answer"
    assert time.monotonic() - began < DELAY
    assert [bridge.recv(100), bridge.recv(100)] == [b"1", b"2"]
    assert time.monotonic() - began >= DELAY
    line.close()
    carrier.join()
    for each in (node, its_end, port, bridge, until):
        each.close()


@pytest.fixture(scope="module")
def delayable(emulable):
    if not os.access(delayed_cables.DEVICE, os.R_OK | os.W_OK):
        pytest.skip(f"{delayed_cables.DEVICE} cannot be opened")


def asked(made, ask):
    """What `ask` returns of a connection from node 0 to node 1, which sends back what it gets."""
    here, there = os.pipe()
    server = os.fork()
    if server == 0:
        try:
            made.enter(1)
            with socket.create_server((address(1), 5000)) as listener:
                os.write(there, b".")
                connection, _ = listener.accept()
                while received := connection.recv(2**20):
                    connection.sendall(received)
        finally:
            os._exit(0)
    os.close(there)
    os.read(here, 1)
    os.close(here)

    def there_and_back():
        with socket.create_connection((address(1), 5000), timeout=60) as line:
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return ask(line)

    answer = on_node(made, 0, there_and_back)
    os.waitpid(server, 0)
    return answer


def echo(line, size):
    """Seconds until all that was sent is back."""

    def send():
        line.sendall(bytes(size))

    began = time.monotonic()
    sender = threading.Thread(target=send)
    sender.start()
    while size > 0:
        size -= len(line.recv(2**20))
    sender.join()
    return time.monotonic() - began


@pytest.mark.slow
def test_a_round_trip_takes_twice_the_latency(delayable):
    with closing(Network(2, 1e9, DELAY)) as made:
        trip = asked(made, lambda line: median(echo(line, 1) for _ in range(5)))
    assert 2 * DELAY <= trip < 2.2 * DELAY


@pytest.mark.slow
def test_a_long_link_is_filled(delayable):
    """Connections have less under way by default than this link has in a round trip."""
    rate, size = 2e8, 10_000_000
    with closing(Network(2, rate, 0.04)) as made:
        # The first message finds the window.
        seconds = asked(made, lambda line: [echo(line, size) for _ in range(3)][-1])
    assert 0.7 * rate / 8 < size / (seconds - 0.08) < rate / 8


@pytest.mark.slow
def test_the_process_that_delays_ends_with_those_whose_network_it_is(delayable):
    with closing(Network(2, 1e9, DELAY)) as made:
        builder = made._builder
        assert os.path.exists(f"/proc/{builder}")
    assert not os.path.exists(f"/proc/{builder}")

    here, there = os.pipe()
    owner = os.fork()
    if owner == 0:
        os.write(there, str(Network(2, 1e9, DELAY)._builder).encode())
        time.sleep(60)
        os._exit(0)
    os.close(there)
    builder = int(os.read(here, 100))
    os.close(here)
    assert os.path.exists(f"/proc/{builder}")
    os.kill(owner, signal.SIGKILL)
    os.waitpid(owner, 0)
    waiting.until("it has ended", lambda: not os.path.exists(f"/proc/{builder}"))


@pytest.mark.parametrize("latency", [1e-4, 2.0])
def test_a_latency_that_cannot_be_emulated_is_refused(latency):
    described = load_cluster("wan_200m_50ms")
    link = described.link.model_copy(update={"latency_seconds": latency})
    cell = next(cell for cell in cells("demo") if cell.nodes > 1)
    with pytest.raises(UserError) as raised:
        require_emulable(replace(cell, cluster=described.model_copy(update={"link": link})))
    assert str(raised.value) == (
        f"{cell.path} cannot be emulated on wan_200m_50ms: emulated links delay by 0.001 to 1 seconds or not "
        f"at all; set link.latency_seconds, which is {latency:g}, to one of these"
    )


def test_that_no_device_can_be_opened_is_said_in_a_sentence(monkeypatch):
    def fails(*arguments):
        raise FileNotFoundError(2, "No such file or directory", delayed_cables.DEVICE)

    monkeypatch.setattr(network, "build", fails)
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    def build():
        Network(2, 1e9, DELAY)

    assert in_fork(build) == (
        "this machine cannot emulate a network of 2 nodes: it delays what links carry with TAP devices, and "
        "/dev/net/tun cannot be opened (No such file or directory); choose a cluster with latency_seconds: 0"
    )
