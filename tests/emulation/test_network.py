"""Emulated networks: who reaches whom, and what is said if there cannot be one."""

import json
import os
import resource
import socket
import subprocess
from contextlib import closing

import pytest
import torch

from tests.emulation.conftest import begun, on_all_nodes
from tests.processes import apart
from thinwire.base.errors import UserError
from thinwire.base.placement import Cluster, Placement, SharedFile
from thinwire.emulation import emulated_run, linux, network
from thinwire.emulation.emulated_run import bytes_sent
from thinwire.emulation.network import INTERFACE, MANAGEMENT, Network, address
from thinwire.traffic.wire_bytes import Ledger, Wire
from thinwire.transport import rendezvous
from thinwire.transport.processes import Processes

pytestmark = pytest.mark.slow


def on_node(made, node, do):
    def there():
        made.enter(node)
        return do()

    return begun(there)()


def asked(made, node, ask, serve):
    """What `ask` returns of a connection from a node to node 1, where `serve` has the other end."""
    here, there = os.pipe()

    def served():
        made.enter(1)
        with socket.create_server((address(1), 5000)) as listener:
            listener.settimeout(60)  # whoever should ask may have failed
            os.write(there, b".")
            connection, _ = listener.accept()
            with connection:
                serve(connection)

    server = begun(served)
    os.close(there)
    os.read(here, 1)
    os.close(here)

    def connected():
        with socket.create_connection((address(1), 5000), timeout=60) as line:
            return ask(line)

    answer = on_node(made, node, connected)
    server()
    return answer


def interfaces():
    return sorted(name for _, name in socket.if_nameindex())


def of_three_nodes():
    """What nodes 0 and 2 hear from node 1, and the interfaces of node 1."""

    def hear(line):
        return line.recv(100).decode()

    def tell(line):
        peer, _ = line.getpeername()
        line.sendall(peer.encode())

    with closing(Network(3, 1e9)) as made:
        return [asked(made, node, hear, tell) for node in (0, 2)], on_node(made, 1, interfaces)


def test_each_node_reaches_the_others_and_only_them(emulable):
    assert apart(of_three_nodes) == ([address(0), address(2)], [INTERFACE, "lo", MANAGEMENT])
    assert INTERFACE not in interfaces() or os.path.exists(f"/sys/class/net/{INTERFACE}/device")


def rates_of_a_node(rate):
    with closing(Network(2, rate)) as made:
        return on_node(made, 0, rates)


def rates():
    command = ["tc", "-j", "qdisc", "show", "dev", INTERFACE]
    limits = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return [limit["options"]["rate"] for limit in limits]


def test_both_ends_of_a_link_are_limited(emulable):
    assert apart(rates_of_a_node, 1.5e8) == [1.5e8 / 8]


def bytes_of_status(made, rank, file):
    """How much its link carries while two ranks share a megabyte."""
    made.enter(rank)
    meeting = SharedFile(file, INTERFACE, MANAGEMENT)
    rendezvous.join(Placement(rank, 2, 0, f"node{rank}", "test", meeting), 300)
    transport = Processes(Cluster(2, 2), torch.device("cpu"), status_interface=MANAGEMENT)
    before = bytes_sent()
    transport.share(["x" * 1_000_000])
    carried = bytes_sent() - before
    transport.close()
    return carried


def test_the_status_of_ranks_does_not_wait_behind_messages_on_the_links(emulable):
    assert max(apart(on_all_nodes, 2, bytes_of_status)) < 10_000


def refusal(nodes, raised):
    """What is said if making the network raises an error."""

    def fails(*arguments):
        raise raised

    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(network, "build", fails)
        monkeypatch.setattr(os, "geteuid", lambda: 0)
        with pytest.raises(UserError) as refused:
            Network(nodes, 1e9)
    return str(refused.value)


@pytest.mark.parametrize(
    ("raised", "sentence"),
    [
        (
            PermissionError(1, "no"),
            "it needs root, or user namespaces, which this system does not allow (Operation not permitted)",
        ),
        (
            OSError(28, "no"),
            "this system allows no more namespaces (user.max_net_namespaces, user.max_user_namespaces)",
        ),
        (FileNotFoundError(2, "no", "tc"), "there is no `tc`, which is part of iproute2"),
        (
            subprocess.CalledProcessError(1, ["tc"], "", "Error: unknown\n"),
            "`tc` failed, so the kernel may lack veth, bridge or tbf (Error: unknown)",
        ),
        (
            FileNotFoundError(2, "No such file or directory", linux.DEVICE),
            "it delays what links carry with TAP devices, and /dev/net/tun cannot be opened (No such file or "
            "directory); choose a cluster with latency_seconds: 0",
        ),
    ],
)
def test_what_a_machine_lacks_is_said_in_a_sentence(raised, sentence):
    assert apart(refusal, 2, raised) == f"this machine cannot emulate a network of 2 nodes: {sentence}"


def refusal_with_few_files():
    resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
    with pytest.raises(UserError) as refused:
        Network(50, 1e9)
    return str(refused.value)


def test_more_nodes_than_can_be_made_are_refused(emulable):
    with pytest.raises(UserError, match="1024 nodes cannot be emulated: one machine joins at most 1023"):
        Network(1024, 1e9)
    assert "nodes were made, so choose fewer" in apart(refusal_with_few_files)


def descriptors_before_and_after():
    before = os.listdir("/proc/self/fd")
    Network(2, 1e9).close()
    return before, os.listdir("/proc/self/fd")


def test_a_network_leaves_no_descriptors_open(emulable):
    before, after = apart(descriptors_before_and_after)
    assert after == before


def test_the_meter_leaves_out_what_is_done_while_it_is_paused(monkeypatch):
    """Two workers on two nodes; here is the first one."""

    class Alone:
        ranks = (0,)

        def share(self, own):
            return own * 2

    sent, ledger = [1000], Ledger()
    monkeypatch.setattr(emulated_run, "bytes_sent", lambda: sent[0])

    def send(payload):
        sent[0] += payload + 66
        ledger.add("world", "mean", "values", payload, payload, Wire(payload, payload, payload))

    meter = emulated_run.TrainingMeter(Cluster(2, 2), Alone(), [ledger])
    send(7)
    meter.start()
    send(100)
    with meter.paused():
        send(5000)
    send(30)
    meter.stop()
    total = meter.total()
    assert total.ledger_bytes == [130, 130]
    assert total.interface_bytes == [130 + 2 * 66] * 2
