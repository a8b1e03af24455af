"""Emulated links with a latency: what is sent arrives that much later, in order, at the rate of the link."""

import os
import socket
import threading
import time
from contextlib import closing
from dataclasses import replace
from statistics import median

import pytest

from tests import waiting
from tests.emulation.test_network import asked
from tests.processes import CONTEXT, apart
from thinwire.base.errors import UserError
from thinwire.config.expand import cells
from thinwire.config.hardware import load_cluster
from thinwire.emulation import linux
from thinwire.emulation.linux import Cable
from thinwire.emulation.network import Network, require_emulable

DELAY = 0.05


def test_what_a_node_sends_is_delayed_in_order_and_what_it_receives_is_not():
    """With sockets in place of devices, which need no root."""
    (node, its_end), (port, bridge) = (socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in range(2))
    line, until = socket.socketpair()
    ends = Cable(its_end.fileno(), port.fileno())
    for descriptor in ends:
        os.set_blocking(descriptor, False)
    carrier = threading.Thread(target=linux.pass_on, args=([ends], DELAY, until))
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
    if not os.access(linux.DEVICE, os.R_OK | os.W_OK):
        pytest.skip(f"{linux.DEVICE} cannot be opened")


def echoes(rate, latency, sizes):
    """Seconds that messages of these sizes, one after the other, take from node 0 to node 1 and back."""

    def ask(line):
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return [echo(line, size) for size in sizes]

    def serve(line):
        while received := line.recv(2**20):
            line.sendall(received)

    with closing(Network(2, rate, latency)) as made:
        return asked(made, 0, ask, serve)


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
    assert 2 * DELAY <= median(apart(echoes, 1e9, DELAY, [1] * 5)) < 2.2 * DELAY


@pytest.mark.slow
def test_a_long_link_is_filled(delayable):
    """Connections have less under way by default than this link has in a round trip."""
    rate, size = 2e8, 10_000_000
    # The first message finds the window.
    *_, seconds = apart(echoes, rate, 0.04, [size] * 3)
    assert 0.7 * rate / 8 < size / (seconds - 0.08) < rate / 8


def own_a_network(pipe):
    """Tell which process delays; close the network when told to, or else keep it until this process ends."""
    with closing(Network(2, 1e9, DELAY)) as made:
        pipe.send(made._builder)
        pipe.recv()
    pipe.send("closed")
    pipe.recv()


@pytest.mark.slow
@pytest.mark.parametrize("killed", [False, True])
def test_the_process_that_delays_ends_with_those_whose_network_it_is(delayable, killed):
    here, there = CONTEXT.Pipe()
    owner = CONTEXT.Process(target=own_a_network, args=(there,), daemon=True)
    owner.start()
    builder = here.recv()
    assert os.path.exists(f"/proc/{builder}")
    if killed:
        owner.kill()
        owner.join()
        waiting.until("it has ended", lambda: not os.path.exists(f"/proc/{builder}"))
    else:
        here.send("close")
        assert here.recv() == "closed"
        assert not os.path.exists(f"/proc/{builder}")
        owner.kill()
        owner.join()


LATENCY = "links delay by 0.001 to 1 seconds or not at all; set link.latency_seconds, which is "


@pytest.mark.parametrize(
    ("cell", "link", "sentence"),
    [
        ({"nodes": 1}, {}, "its 8 workers are on one node and use no link; choose a cell with several nodes"),
        ({"device": "gpu"}, {}, "emulated links join CPUs only; set device: cpu"),
        ({}, {"full_duplex": False}, "emulated links have both directions at once; set full_duplex: true"),
        ({}, {"latency_seconds": 1e-4}, f"emulated {LATENCY}0.0001, to one of these"),
        ({}, {"latency_seconds": 2.0}, f"emulated {LATENCY}2, to one of these"),
        ({}, {"shared_by_workers": False}, "an emulated node has one link; set shared_by_workers: true"),
    ],
)
def test_what_cannot_be_emulated_is_refused(cell, link, sentence):
    described = load_cluster("wan_200m_50ms")
    described = described.model_copy(update={"link": described.link.model_copy(update=link)})
    nodes = next(each for each in cells("demo") if each.nodes > 1 and each.workers == 8)
    refused = replace(nodes, cluster=described, **cell)
    with pytest.raises(UserError) as raised:
        require_emulable(refused)
    said = f"{refused.path} cannot be emulated on wan_200m_50ms: {sentence}"
    assert str(raised.value).startswith(said)
